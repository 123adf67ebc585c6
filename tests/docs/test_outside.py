"""The page about what reaches outside: each of its rows is a test."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "outside.md"


@functools.cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of the functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_row_is_a_test() -> None:
    """Every row of the tables ends with the name of a test that exists."""

    def is_a_test(row: str) -> bool:
        """Return whether a row ends with the name of a test that exists."""
        match = re.search(r"\| `(\S+)::(test_\w+)` \|$", row)
        return match is not None and match[2] in functions_of(TESTS / match[1])

    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| the program |")]
    assert rows
    assert [row for row in rows if not is_a_test(row)] == []
