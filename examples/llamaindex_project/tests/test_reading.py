"""The agent reserves what it has looked up; books that are read at once come in the recorded order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import reading

from agenttape_core.pytest_plugin import TestCassette
from agenttape_llamaindex import ReplayLLM


@pytest.mark.cassette
def test_reserves_a_book(cassette: TestCassette) -> None:
    """A book is reserved, and in a replay nobody is asked for it."""
    assert asyncio.run(reading.answer("A book about the sea, please."))
    cassette.assert_tool_calls(["reserve"])


@pytest.mark.cassette
def test_compares_all_books(cassette: TestCassette) -> None:
    """Each book is read once; the steps of the workflow can be asked for."""
    _, read = asyncio.run(reading.compared())
    assert sorted(read) == sorted(reading.BOOKS)
    assert set(cassette.nodes) == {"begin", "read", "compare"}


def test_compares_with_a_stand_in() -> None:
    """The recording of the test above is an LLM, too: without a marker, a session or a service."""
    llm = ReplayLLM(Path(__file__).parent / "cassettes" / "test_reading" / "test_compares_all_books.yaml")
    common, _ = asyncio.run(reading.compared(llm))
    assert common
