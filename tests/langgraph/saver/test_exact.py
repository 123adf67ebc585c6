"""Values come out as they went in, by few queries."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import itertools
import pickle
import re
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, Interrupt, Send

from agenttape_langgraph import TapeSaver
from agenttape_langgraph.saver.encoding import pack, unpack
from agenttape_langgraph.saver.splitting import split

from .test_stored_once import SERIALISERS
from .threads import FullSaver, checkpoint, growing, place, put_thread

# -- Values come out as they went in: any value, any serialiser, any order of calls ------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Opaque:
    """Something that only pickle can store."""

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.it == self.it

    __hash__ = None  # type: ignore[assignment]


VALUES = {
    "messages": [
        HumanMessage("hello", id="1"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"a": [1]}, "id": "c"}], id="2"),
        ToolMessage("x" * 9000, tool_call_id="c", artifact={"k": (1, 2)}),
    ],
    "none": None,
    "bytes": b"\0\xff" * 700,
    "empty": {"text": "", "list": [], "bytes": b""},
    "types": [
        Colour.RED,
        Point(1, 2.5),
        uuid.UUID(int=7),
        decimal.Decimal("1.10"),
        dt.date(2026, 11, 21),
        {1, 2},
    ],
    "send": [Send("node", {"a": 1}), Interrupt("why", id="i"), Command(resume="yes", goto=Send("n", {"a": 1}))],
    "nested": {"deep": [{"list": [{"n": number, "text": f"entry {number} " * 20} for number in range(30)]}]},
    "numbers": [*range(3000), 1e300, -1, 2**63 - 1],
    "unicode": "é\n\0\u2028😀" * 300,
    "large": "0123456789 " * 40_000,
}


@pytest.mark.parametrize("name", SERIALISERS)
def test_every_value_comes_back_as_it_was(name: str, saver: TapeSaver) -> None:
    """Values of all sorts come back equal to those of LangGraph's own serialiser, and of the same type."""
    saver.serde = SERIALISERS[name]()
    plain = InMemorySaver(serde=saver.serde)
    for it in (saver, plain):
        put_thread(it, [VALUES, {**VALUES, "messages": VALUES["messages"] * 2}])
    ours, theirs = saver.get_tuple(place()), plain.get_tuple(place())
    assert ours == theirs
    assert ours is not None
    assert theirs is not None
    assert repr(ours.checkpoint["channel_values"]) == repr(theirs.checkpoint["channel_values"])
    assert repr(ours.pending_writes) == repr(theirs.pending_writes)
    assert list(saver.list(place())) == list(plain.list(place()))


def test_pickle_is_a_fallback(path: Path) -> None:
    """A value that only pickle can store comes back when the serialiser falls back to it."""
    with TapeSaver(path, serde=JsonPlusSerializer(pickle_fallback=True)) as saver:
        put_thread(saver, [{"it": Opaque(["long " * 500])}, {"it": Opaque(["long " * 500, 2])}])
        assert [found.checkpoint["channel_values"]["it"].it[1:] for found in saver.list(place())] == [[2], []]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(states=st.lists(st.dictionaries(st.text(min_size=1, max_size=9), PLAIN, max_size=4), max_size=5))
def test_any_thread_comes_back(states: list[dict[str, Any]]) -> None:
    """Any states of plain data come back equal, listed newest first."""
    with TapeSaver(":memory:") as saver:
        plain = InMemorySaver()
        for it in (saver, plain):
            put_thread(it, states)
        assert list(saver.list(place())) == list(plain.list(place()))


@given(
    data=st.binary(max_size=200) | st.text(max_size=20).map(str.encode),
    times=st.integers(1, 400),
    kind=st.sampled_from(["msgpack", "pickle"]),
)
def test_pieces_are_the_bytes(data: bytes, times: int, kind: str) -> None:
    """Whatever the bytes, their pieces together are the bytes, packed and unpacked as well."""
    whole = b"".join(data + bytes((number & 0xFF,)) for number in range(times))
    assert b"".join(split(kind, whole)) == whole
    assert unpack(*pack(whole)) == whole


@pytest.mark.parametrize("kind", ["msgpack", "pickle"])
def test_what_was_appended_leaves_the_pieces_before_alone(kind: str) -> None:
    """The pieces of a list that grew are those of the list before, but for the first and the last."""
    dump = JsonPlusSerializer().dumps_typed if kind == "msgpack" else lambda it: (kind, pickle.dumps(it))
    states = growing(40)
    for before, after in pairwise(states[20:]):
        old = split(*dump(before["messages"]))
        new = split(*dump(after["messages"]))
        assert len(set(new) - set(old)) <= 5


class Against(RuleBasedStateMachine):
    """Does the same to ours and to LangGraph's saver in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.ours: BaseCheckpointSaver[Any] = TapeSaver(":memory:")
        self.theirs: BaseCheckpointSaver[Any] = FullSaver()
        self.number = 0

    @property
    def both(self) -> tuple[BaseCheckpointSaver[Any], BaseCheckpointSaver[Any]]:
        return self.ours, self.theirs

    @rule(
        thread=st.sampled_from("ab"),
        ns=st.sampled_from(["", "sub"]),
        words=st.integers(0, 40),
        run=st.sampled_from("xy"),
    )
    def put(self, thread: str, ns: str, words: int, run: str) -> None:
        self.number += 1
        saved = checkpoint(self.number, {"m": [f"word {number} " * 30 for number in range(words)], "n": words})
        for saver in self.both:
            latest = saver.get_tuple(place(thread, ns=ns))
            config = place(thread, ns=ns) if latest is None else latest.config
            saver.put(config, saved, {"step": words, "run_id": run}, saved["channel_versions"])  # type: ignore[typeddict-unknown-key]

    @rule(
        thread=st.sampled_from("ab"),
        ns=st.sampled_from(["", "sub"]),
        task=st.sampled_from("tu"),
        path=st.sampled_from(["", "p"]),
        writes=st.lists(
            st.tuples(st.sampled_from(["m", "n", "__error__", "__resume__"]), st.integers(0, 99)), max_size=3
        ),
    )
    def write(self, thread: str, ns: str, task: str, path: str, writes: list[tuple[str, int]]) -> None:
        for saver in self.both:
            latest = saver.get_tuple(place(thread, ns=ns))
            if latest is not None:
                saver.put_writes(latest.config, writes, task, path)

    @rule(thread=st.sampled_from("ab"))
    def delete(self, thread: str) -> None:
        for saver in self.both:
            saver.delete_thread(thread)

    @rule(runs=st.lists(st.sampled_from("xy"), max_size=1))
    def delete_runs(self, runs: list[str]) -> None:
        for saver in self.both:
            saver.delete_for_runs(runs)

    @rule()
    def copy(self) -> None:
        for saver in self.both:
            saver.delete_thread("c")
            saver.copy_thread("a", "c")

    @invariant()
    def equal(self) -> None:
        for thread in "abc":
            assert list(self.ours.list(place(thread))) == list(self.theirs.list(place(thread)))
            every = {"configurable": {"thread_id": thread}}
            for more in ({}, {"limit": 2}, {"filter": {"run_id": "x"}}):
                ours, theirs = ([it.checkpoint["id"] for it in saver.list(every, **more)] for saver in self.both)  # type: ignore[arg-type]
                assert more.get("limit") or sorted(ours) == sorted(theirs)
                assert ours == sorted(ours, reverse=True)

    def teardown(self) -> None:
        self.ours.close()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("path")
def test_it_does_what_the_saver_in_memory_does() -> None:
    """After any sequence of calls, both list the same checkpoints with the same writes."""
    run_state_machine_as_test(Against, settings=settings(max_examples=15, stateful_step_count=20))


def test_versions_are_the_same_every_time(saver: TapeSaver) -> None:
    """Versions grow, never vary, go on from those of other savers, and stay numbers where they are numbers."""
    first = saver.get_next_version(None, None)
    assert first == saver.get_next_version(None, None)
    assert first < saver.get_next_version(first, None)
    theirs = InMemorySaver().get_next_version(InMemorySaver().get_next_version(None, None), None)
    assert (
        theirs
        < saver.get_next_version(theirs, None)
        < InMemorySaver().get_next_version(saver.get_next_version(theirs, None), None)
    )
    assert saver.get_next_version(3, None) == 4
    assert saver.get_next_version(1.5, None) == 2.5


def test_a_checkpoint_without_values_is_kept_as_it_is(saver: TapeSaver) -> None:
    """Keys that are missing stay missing, and keys that LangGraph added once are kept."""
    bare: Any = {"v": 1, "id": "1", "ts": "now"}
    more: Any = {**empty_checkpoint(), "id": "2", "pending_sends": [Send("a", 1)], "of_the_future": {"a": 1}}
    for it in (bare, more):
        saver.put(place(), it, {}, {})
    assert [found.checkpoint for found in saver.list(place())] == [more, bare]


def test_what_is_listed(saver: TapeSaver) -> None:
    """Listings are narrowed by thread, namespace, checkpoint, age and metadata, nested too, and are newest first."""
    for number, (thread, ns) in enumerate(itertools.product("ab", ["", "sub:1"]), 1):
        metadata: Any = {"step": number, "user": {"name": thread}, "none": None}
        saver.put(place(thread, ns=ns), checkpoint(number, {}), metadata, {})

    def listed(config: Any, **more: Any) -> list[int]:
        return [found.metadata["step"] for found in saver.list(config, **more)]

    assert listed(None) == [4, 3, 2, 1]
    assert listed({"configurable": {"thread_id": "a"}}) == [2, 1]
    assert listed(place("a")) == [1]
    assert listed(place("b", checkpoint(4, {})["id"], "sub:1")) == [4]
    assert listed(None, before=place("any", checkpoint(3, {})["id"])) == [2, 1]
    assert listed(None, limit=3) == [4, 3, 2]
    assert listed(None, limit=0) == []
    assert listed(None, filter={"user": {"name": "b"}}, limit=1) == [4]
    assert listed(None, filter={"user.name": "a", "none": None}) == [2, 1]
    assert listed(None, filter={"user.name.first": "a"}) == listed(None, filter={"user": "a"}) == []
    assert saver.get_tuple(place("c")) is None
    assert saver.get(place("a"))["id"] == checkpoint(1, {})["id"]  # type: ignore[index]


# -- An operation asks the file as little as it must, and never answers from what another process has changed ----------

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
