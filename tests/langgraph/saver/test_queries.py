"""An operation asks the file as little as it must, and never answers from what another process has changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from agenttape_langgraph import TapeSaver
from agenttape_langgraph.saver.splitting import split

from .threads import checkpoint, growing, place, put_thread

OPERATIONS: dict[str, tuple[int, Callable[[TapeSaver], Any]]] = {
    "the newest": (2, lambda saver: saver.get_tuple(place())),
    "a named one": (2, lambda saver: saver.get_tuple(place("1", checkpoint(1, {})["id"]))),
    "none": (1, lambda saver: saver.get_tuple(place("none"))),
    "a list": (2, lambda saver: list(saver.list(place()))),
    "a list of some": (2, lambda saver: list(saver.list(place(), filter={"step": 2}, limit=1))),
    "an older one": (2, lambda saver: list(saver.list(place(), before=place("1", checkpoint(3, {})["id"]), limit=1))),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_short_thread_is_read_by_two_queries(name: str, saver: TapeSaver) -> None:
    """What was written or read lately takes one query for the checkpoints and one for their writes."""
    most, operation = OPERATIONS[name]
    put_thread(saver, growing(5))
    operation(saver)
    asked: list[str] = []
    with saver.database.reading() as connection:
        connection.set_trace_callback(asked.append)
    try:
        operation(saver)
    finally:
        with saver.database.reading() as connection:
            connection.set_trace_callback(None)
    queries = [words for words in asked if words.startswith("SELECT")]
    assert len(queries) <= most, queries


@pytest.mark.sweep
@pytest.mark.parametrize("limit", [None, 1, 15, 16, 17, 33, 100])
@pytest.mark.parametrize("wanted", [None, {"source": "loop"}, {"run_id": "run-1"}, {"step": 20}, {"step": "none"}])
def test_listings_of_many_pages_are_those_of_langgraph(wanted: Any, limit: int | None, saver: TapeSaver) -> None:
    """A listing of more than one page has the checkpoints that LangGraph's saver lists, in the same order."""
    plain = InMemorySaver()
    for it in (saver, plain):
        put_thread(it, [{"n": step} for step in range(40)])
    for before in (None, place("1", checkpoint(30, {})["id"])):
        asked: Any = {"filter": wanted, "limit": limit, "before": before}
        assert list(saver.list(place(), **asked)) == list(plain.list(place(), **asked))


def test_a_whole_page_may_be_deleted_meanwhile(saver: TapeSaver) -> None:
    """A listing goes on after a page of which nothing is there any more."""
    configs = put_thread(saver, [{"n": step} for step in range(60)])
    listing = saver.list(place())
    first = next(listing)
    saver.delete_for_runs(["run-0", "run-1"])
    for number in range(10, 50):  # in the place of those that ran
        saver.put(configs[0], checkpoint(number, {"n": "new"}), {"run_id": "gone"}, {})
    saver.delete_for_runs(["gone"])
    steps = [found.metadata["step"] for found in (first, *listing)]
    assert steps[:16] == [*range(59, 43, -1)]  # were read at once
    assert steps[16:] == [8, 5, 2]


def test_what_another_saver_changes_is_seen_at_once(path: Path) -> None:
    """A saver that has read a thread sees what another one put in its place, small and large."""
    with TapeSaver(path) as saver, TapeSaver(path) as other:
        for number, states in enumerate((growing(3), growing(3, "something else {}"), [{"n": 1}, {"n": 2}])):
            put_thread(other, states)
            for _ in range(2):
                assert [found.checkpoint["channel_values"] for found in saver.list(place())] == states[::-1], number
                newest = saver.get_tuple(place())
                assert newest is not None
                assert newest.checkpoint["channel_values"] == states[-1]
            other.delete_thread("1")
            assert saver.get_tuple(place()) is None
            assert list(saver.list(None)) == []


@given(
    data=st.text(alphabet="ab \n,}])>;\0", max_size=60) | st.text(alphabet="word and ", max_size=60),
    times=st.integers(1, 3_000),
    more=st.text(alphabet="xyz,", max_size=3),
)
def test_cuts_of_a_text_are_after_its_punctuation(data: str, times: int, more: str) -> None:
    """A large text is cut after the first punctuation that follows 1 KB, or after 64 KB: as in files of old."""
    whole = ((data + " ") * times + more).encode()
    expected, start = [], 0
    if len(whole) > 2048:
        while len(whole) - start > 2048:
            end = min(start + 65536, len(whole))
            found = re.compile(rb"[\n,}\])>;\x94\x00]").search(whole, start + 1024, end)
            expected.append(whole[start : found.end() if found else end])
            start += len(expected[-1])
    assert split("other", whole) == [*expected, *([whole[start:]] if start < len(whole) else [])]
