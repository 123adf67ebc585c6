"""The raw comparison of runs sees every difference, and says where it is."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel, PrivateAttr

from agenttape_core import boundary
from agenttape_core.testing import Capture, compare_runs, raw, record_run, replay_run


class Word(str):
    """A text of another class."""

    __slots__ = ()


class Colour(Enum):
    """A colour."""

    RED = 1
    BLUE = 1.0


@dataclass
class Point:
    """A point."""

    x: float
    seen: list[int] = field(default_factory=list, compare=False)


class Slotted:
    """Is compared by value."""

    __slots__ = ("x",)

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted)

    def __hash__(self) -> int:
        return 0


class Model(BaseModel):
    """A model with something private."""

    x: Any = 0
    _kept: Any = PrivateAttr(default=None)

    def keeping(self, kept: Any) -> Model:
        self._kept = kept
        return self


def noted(message: str, *notes: str) -> ValueError:
    error = ValueError(message)
    for note in notes:
        error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (0.1 + 0.2, 0.3),
        ("a", Word("a")),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: "a"}, {"1": "a"}),
        ({1}, frozenset({1})),
        ([1], deque([1])),
        (b"a", bytearray(b"a")),
        (Colour.RED, 1),
        (Point(1, [1]), Point(1, [2])),
        (Slotted(1), Slotted(2)),
        (Model(x=1), Model(x=1).keeping(2)),
        (Model(x=1), Model(x=1.0)),
        (HumanMessage("a", id="1"), HumanMessage("a", id="2")),
        (HumanMessage("a"), AIMessage("a")),
        (ValueError("a"), TypeError("a")),
        (noted("a", "note"), noted("a")),
        (np.arange(3), np.arange(3.0)),
        (np.float32(1), np.float64(1)),
        (datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1)),  # noqa: DTZ001 - the difference
        (len, max),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nothing_that_differs_is_taken_for_equal(first: Any, other: Any) -> None:
    """Values that differ in type, order, a bit, an id, a note or a private field are not equal."""
    assert [each.verdict for each in compare_runs({"result": [raw(first)]}, {"result": [raw(other)]})] != []
    assert compare_runs({"result": [raw(first)]}, {"result": [raw(first)]}) == []


def test_what_has_no_value_is_its_class() -> None:
    """Locks, objects that are compared by identity, and circles are taken down without memory addresses."""
    circle: list[Any] = [threading.Lock(), object(), lambda: None]
    circle.append(circle)
    again: list[Any] = [threading.Lock(), object(), lambda: None]
    again.append(again)
    assert compare_runs({"result": [raw(circle)]}, {"result": [raw(again)]}) == []


def test_a_difference_says_where_it_is() -> None:
    """A difference is told by its part and its place; a permutation on any level is told from other differences."""
    recorded = {"stream": [["a", 1], ["b", Point(1)]], "events": [{"x": 1, "y": [1, 2]}], "result": [3]}
    replayed = {"stream": [["a", 1], ["b", Point(2)]], "events": [{"x": 1, "y": [2, 1]}], "result": [3]}
    found = compare_runs(*({part: raw(items) for part, items in facts.items()} for facts in (recorded, replayed)))
    assert list(map(str, found)) == [
        "stream differs: [1][1].x\n  recorded  1\n  replayed  2",
        "events order: [0].y[0]\n  recorded  1\n  replayed  2",
    ]


def test_later_changes_change_nothing() -> None:
    """An item is taken down as it is at that moment."""
    capture, shared = Capture(), [1]
    capture.add("stream", shared)
    shared.append(2)
    capture.add("stream", shared)
    assert capture.facts() == {"stream": [[1], [1, 2]]}


def test_what_cannot_be_taken_down_is_no_secret() -> None:
    """An item that cannot be taken down fails the comparison, although a framework swallows the errors of handlers."""

    class Odd(list[Any]):
        def __iter__(self) -> Any:
            raise LookupError("no")

    capture = Capture()
    with pytest.raises(LookupError):
        capture.add("stream", Odd())
    with pytest.raises(LookupError):
        capture.facts()


def test_a_program_is_recorded_and_replayed(tmp_path: Path) -> None:
    """A program or a coroutine function is compared by what it gave and took down; a miss is a difference."""
    asked: list[str] = []

    @boundary("call")
    def ask(what: str) -> str:
        asked.append(what)
        if what == "fail":
            raise LookupError(what)
        return f"{what} {len(asked)}"

    def program(capture: Capture, what: str = "Why?") -> str:
        capture.add("log", ask(what))
        return ask(what)

    async def aprogram(capture: Capture) -> str:
        return program(capture, "fail")

    recorded = record_run(program, tmp_path / "c.yaml")
    assert recorded == {"log": ["Why? 1"], "result": ["Why? 2"]}
    assert compare_runs(recorded, replay_run(program, tmp_path / "c.yaml")) == []
    failed = record_run(aprogram, tmp_path / "failed.yaml")
    assert compare_runs(failed, replay_run(aprogram, tmp_path / "failed.yaml")) == []
    assert asked == ["Why?", "Why?", "fail"]
    (missed,) = replay_run(lambda capture: program(capture, "When?"), tmp_path / "c.yaml")["result"]
    assert "CassetteMissError" in str(missed)
