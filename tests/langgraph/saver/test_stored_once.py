"""Equal values are stored once, growing values as they grow, and released values are deleted."""

from __future__ import annotations

import operator
import pickle
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agenttape_core.errors import ConfigurationError
from agenttape_langgraph import TapeSaver

from .threads import CONTENT, bytes_of, counts, growing, place, put_thread

EMPTY = dict.fromkeys(CONTENT, 0)


class Pickled:
    """A serialiser of a user."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "mine", pickle.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        assert data[0] == "mine"
        return pickle.loads(data[1])


SERIALISERS = {
    "default": JsonPlusSerializer,
    "encrypted": lambda: EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef"),
    "own": Pickled,
}


@pytest.mark.parametrize("name", SERIALISERS)
def test_a_growing_list_is_stored_as_it_grows(name: str, tmp_path: Path) -> None:
    """A thread of twice the steps takes about twice the room, whatever serialises it."""
    sizes = []
    for steps in (30, 60):
        file = tmp_path / f"{steps}.sqlite"
        with TapeSaver(file, serde=SERIALISERS[name]()) as saver:
            put_thread(saver, growing(steps))
        sizes.append(file.stat().st_size)
    assert sizes[1] < 2.5 * sizes[0]


def test_a_message_is_stored_once(saver: TapeSaver, path: Path) -> None:
    """Each message has one piece, however many checkpoints and writes have it; an unchanged value has one content."""
    put_thread(saver, growing(40))
    found = counts(path, *CONTENT)
    assert found["pieces"] <= 2 * 40 + 5
    with closing(sqlite3.connect(path)) as connection:
        (most,) = connection.execute("SELECT max(n) FROM (SELECT count(*) n FROM uses GROUP BY content)").fetchone()
    assert most == 40  # the notes


def test_a_list_that_loses_its_beginning_keeps_its_pieces(saver: TapeSaver, path: Path) -> None:
    """A window of messages that moves stores each message once."""
    messages = growing(60)[-1]["messages"]
    put_thread(saver, [{"messages": messages[at : at + 20]} for at in range(0, 100, 2)])
    assert counts(path, "pieces")["pieces"] < 1.3 * len(messages)


def test_a_copied_thread_takes_no_room_for_its_values(saver: TapeSaver, path: Path) -> None:
    """A copy shares every value, and each of the two lives on when the other is deleted."""
    states = growing(20)
    put_thread(saver, states)
    before = counts(path, "contents", "links", "pieces")
    saver.copy_thread("1", "2")
    saver.copy_thread("1", "2")
    assert counts(path, "contents", "links", "pieces") == before
    saver.delete_thread("1")
    assert counts(path, "contents", "links", "pieces") == before
    assert [found.checkpoint["channel_values"] for found in saver.list(place("2"))] == states[::-1]
    saver.delete_thread("2")
    assert counts(path, *CONTENT, "checkpoints", "writes", "namespaces") == {
        **EMPTY, "checkpoints": 0, "writes": 0, "namespaces": 0,
    }  # fmt: skip


def test_a_copy_does_not_mix_threads(saver: TapeSaver) -> None:
    """A thread is not copied over one with checkpoints of its own, unless that is asked for."""
    put_thread(saver, [{"n": 1}], "1")
    put_thread(saver, [{"n": 7}, {"n": 8}], "2")  # the ids of the first checkpoints are equal
    with pytest.raises(ConfigurationError, match="found '2' with 1 checkpoints that '1' does not have"):
        saver.copy_thread("1", "2")
    assert [found.checkpoint["channel_values"] for found in saver.list(place("2"))] == [{"n": 8}, {"n": 7}]
    saver.copy_thread("1", "2", merge=True)
    assert [found.checkpoint["channel_values"] for found in saver.list(place("2"))] == [{"n": 8}, {"n": 1}]


def test_a_series_of_deletions_is_off_the_disk(saver: TapeSaver, path: Path) -> None:
    """Of many threads that are deleted one after the other nothing is left once the saver is closed."""
    for number in range(12):
        put_thread(saver, [{"messages": [AIMessage(f"Dolores{number:05}" * 20)]}], str(number))
    for number in range(11):
        saver.delete_thread(str(number))
    assert [found.config["configurable"]["thread_id"] for found in saver.list(None)] == ["11"]
    saver.delete_thread("11")
    saver.close()
    assert b"Dolores" not in bytes_of(path)


def test_a_value_that_is_read_again_is_another_object(saver: TapeSaver) -> None:
    """What is read from a saver may be changed, and is read as it was stored the next time."""
    put_thread(saver, [{"messages": [AIMessage("as it was " * 50)], "notes": ["x" * 200]}])
    for _ in range(2):
        found = saver.get_tuple(place("1"))
        assert found is not None
        values = found.checkpoint["channel_values"]
        assert (values["messages"][0].content, values["notes"]) == ("as it was " * 50, ["x" * 200])
        values["messages"][0].content = "changed"
        values["notes"].append("more")


def test_a_listing_by_metadata_is_whole(saver: TapeSaver) -> None:
    """Listing by metadata finds the newest first, as many as wanted, also among more than it looks at in one go."""
    for number in range(3):
        put_thread(saver, [{"n": step} for step in range(120)], str(number))
    every = [found.metadata.get("step") for found in saver.list(None)]
    steps = sorted({step for step in every if step is not None})
    assert len(every) == 360
    for step in (steps[0], steps[-1]):
        found = list(saver.list(None, filter={"step": step}))
        assert len(found) == every.count(step)
        assert list(saver.list(None, filter={"step": step}, limit=2)) == found[:2]


def test_what_is_deleted_is_off_the_disk(saver: TapeSaver, path: Path) -> None:
    """A deleted thread leaves none of its words in the file or beside it, and gives its room back."""
    put_thread(saver, [{"messages": [AIMessage("the empty thread is small")]}], "keep")
    saver.database.tidy()
    small = path.stat().st_size
    put_thread(saver, [{"messages": [AIMessage(f"Dolores{number:05}" * 20)]} for number in range(300)], "go")
    assert b"Dolores" in bytes_of(path)
    saver.delete_thread("go")
    assert b"Dolores" not in bytes_of(path)
    assert path.stat().st_size <= small + 3 * 4096
    assert saver.get_tuple(place("keep")) is not None


@pytest.mark.parametrize("drop", ["runs", "prune", "replace", "one by one"])
def test_nothing_is_left_that_nobody_has(drop: str, saver: TapeSaver, path: Path) -> None:
    """After deleting checkpoints in any way, the file equals one that was made of the remaining ones alone."""
    states = growing(12)
    put_thread(saver, states)
    if drop == "runs":
        saver.delete_for_runs(["run-0", "run-1"])
    elif drop == "prune":
        saver.prune(["1"])
    elif drop == "replace":
        put_thread(saver, [{"messages": []} for _ in states])
        saver.prune(["1"])
    else:
        for run in ("run-0", "run-1", "run-2"):
            saver.delete_for_runs([run])
    remaining = [(found.checkpoint, found.metadata, found.pending_writes) for found in saver.list(place())]
    assert len(remaining) == {"runs": 4, "prune": 1, "replace": 1, "one by one": 0}[drop]
    other = path.with_name("fresh.sqlite")
    with TapeSaver(other) as fresh:
        for checkpoint, metadata, writes in reversed(remaining):
            config = fresh.put(place(), checkpoint, metadata, {})
            for task_id, channel, value in writes or ():
                fresh.put_writes(config, [(channel, value)], task_id)
    assert counts(path, *CONTENT) == counts(other, *CONTENT)


@pytest.mark.parametrize("order", [["left", "right", "stem"], ["right", "stem", "left"], ["stem", "left", "right"]])
def test_threads_that_part_are_deleted_each_on_its_own(order: list[str], saver: TapeSaver, path: Path) -> None:
    """Of lists that begin alike the beginning stays as long as any of them, in whatever order they are deleted."""
    stem = growing(9)[-1]["messages"]
    lists = {
        "stem": [stem],
        "left": [[*stem, AIMessage("to the left " * 20)], [*stem, AIMessage("sharply to the left " * 20)]],
        "right": [[*stem, AIMessage("to the right " * 20)], stem[:5]],
    }
    for thread, states in lists.items():
        put_thread(saver, [{"messages": state} for state in states], thread)
    for done, thread in enumerate(order, 1):
        saver.delete_thread(thread)
        for other in order[done:]:
            found = [it.checkpoint["channel_values"]["messages"] for it in saver.list(place(other))]
            assert found == lists[other][::-1]
    assert counts(path, *CONTENT) == EMPTY


@pytest.mark.parametrize("steps", [1, 200])
def test_a_deletion_alone_is_off_the_disk(steps: int, path: Path) -> None:
    """A deletion that is the first change of a process leaves no word of what it deletes, be that little or much."""
    noise = [b"Dolores" + random.Random(step).randbytes(18_000) for step in range(steps)]
    with TapeSaver(path) as saver:
        put_thread(saver, [{"text": "the other thread"}], "keep")
        put_thread(saver, [{"noise": it} for it in noise], "go")
    assert b"Dolores" in bytes_of(path)
    with TapeSaver(path) as saver:
        assert saver.get_tuple(place("keep")) is not None
        saver.delete_thread("go")
        assert b"Dolores" not in bytes_of(path)


def test_equal_values_of_different_types_are_different(saver: TapeSaver) -> None:
    """Equal bytes of another type are another content: a text and the same bytes keep their types."""
    values: dict[str, Any] = {"bytes": b"a" * 500, "bytearray": bytearray(b"a" * 500), "text": "a" * 500}
    put_thread(saver, [values])
    found = saver.get_tuple(place())
    assert found is not None
    assert {name: type(value) for name, value in found.checkpoint["channel_values"].items()} == {
        "bytes": bytes, "bytearray": bytearray, "text": str,
    }  # fmt: skip
    assert operator.eq(found.checkpoint["channel_values"], values)
