"""The agent looks before it promises."""

from __future__ import annotations

import pytest
import support

from agenttape_core.pytest_plugin import TestCassette


@pytest.mark.cassette
def test_looks_before_it_reserves(cassette: TestCassette) -> None:
    """The stock is asked for first."""
    assert support.answer("Please reserve Dune for me.")
    cassette.assert_tool_calls(["in_stock", "reserve"])
    cassette.assert_tool_args("reserve", title="Dune")


@pytest.mark.cassette
@pytest.mark.parametrize("title", ["Dune", "Solaris"])
def test_names_the_book(title: str) -> None:
    """The answer is about the book that was asked for."""
    assert title in support.answer(f"Do you have {title}?")
