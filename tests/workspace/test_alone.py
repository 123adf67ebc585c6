"""The tests that run without a framework: all that one process of them imports is paid for by each session there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
DEAR = {"anthropic", "langchain", "langchain_core", "langgraph", "llama_index", "openai"}
"""A session connects these where they are imported, for a millisecond or two each time."""


_IMPORT = re.compile(rf"^(?:from|import) (?:{'|'.join(sorted(DEAR))})\b", re.MULTILINE)


def test_tests_of_core_import_no_framework() -> None:
    """No module of core's tests imports one where it is collected; `tests/conformance` has those that need one."""

    def imported(path: Path) -> list[str]:
        """Return what a module imports as it is imported itself; not what the programs in its texts do."""
        text = path.read_text("utf-8")
        names = []
        for statement in ast.parse(text).body if _IMPORT.search(text) else []:
            if isinstance(statement, ast.Import):
                names += [each.name for each in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                names.append(statement.module or "")
        return [name.partition(".")[0] for name in names]

    dear = {str(path): DEAR.intersection(imported(path)) for path in (TESTS / "core").rglob("*.py")}
    assert {name: found for name, found in dear.items() if found} == {}
