"""The page about redaction says what is true."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "redaction.md"


def test_snippets_run() -> None:
    """Each Python snippet of the page runs as it stands, in order."""
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, str(PAGE), "exec"), names)


def test_quality_table_is_current(quality_table: str) -> None:
    """The page prints the precision and recall that the corpus has now."""
    assert quality_table in PAGE.read_text(encoding="utf-8"), f"put this table into {PAGE.name}:\n{quality_table}"
