"""The page about runs that are the same: its tables are those of the tests.

To write them anew after an edit: `pytest tests/docs/test_identical.py --update-examples`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conformance.identical.page import tables
from ..conformance.identical.table import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "identical.md"
BEGIN, END = "## The table\n\n", "\n\n## What"


def test_the_page_has_the_tables_of_the_tests(request: pytest.FixtureRequest) -> None:
    """The tables of the page are made of the rows that the tests run."""
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(BEGIN) + len(BEGIN)
    end = text.index(END, start)
    if request.config.getoption("update_examples"):
        PAGE.write_text(text[:start] + tables() + text[end:], encoding="utf-8")
        return
    assert text[start:end] == tables()


def test_the_page_gives_every_reason() -> None:
    """Each reason why a part cannot be equal is on the page."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    reasons = {reason for row in ROWS.values() for reason in (*row.never.values(), *row.seeded.values())}
    assert [reason for reason in reasons if reason not in text] == []
