"""The forms of reports by the suffixes of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agenttape_core.tools.reporting.findings import Checked
from agenttape_core.tools.reporting.junit import junit
from agenttape_core.tools.reporting.markdown import markdown
from agenttape_core.tools.reporting.sarif import sarif
from agenttape_core.tools.reporting.texts import fenced
from agenttape_core.tools.reporting.trx import trx

FORMS: Mapping[str, Callable[[Sequence[Checked]], str]] = {
    ".md": markdown,
    ".sarif": lambda checked: sarif(checked, version("agenttape-core")),
    ".trx": lambda checked: trx(checked, datetime.now(UTC)),
    ".xml": junit,
}
"""The functions that make a report of runs, by the suffix of its file."""
WRITTEN = (".json", ".txt", *FORMS)
"""The suffixes of the files to which a result is written."""


def write_report(
    file: str | Path, checked: Sequence[Checked], plain: Any, text: str, *, has_table: bool = True
) -> None:
    """Write a result to a file, in the form of its suffix, and make its folder.

    Args:
        file: The file.
        checked: The findings.
        plain: The result as plain data.
        text: The result as text.
        has_table: Whether that is more than the findings, so that it belongs into Markdown, too.
    """
    path = Path(file)
    if path.suffix == ".json":
        content = json.dumps(plain, indent=2, default=str)
    elif path.suffix == ".md":
        table = [*fenced(text.splitlines(), "text"), ""] if has_table else []
        content = "\n".join([markdown(checked), *table])
    else:
        content = FORMS[path.suffix](checked) if path.suffix in FORMS else f"{text}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="\n")
