"""What was bound to a clock or a generator before the session is frozen, wherever it is held."""

# Naive moments are part of what is tested.
# ruff: noqa: DTZ006

from __future__ import annotations

import asyncio
import dataclasses
import functools
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import pydantic
import pytest

from agenttape_core import use_cassette

from .conftest import OpenSession, in_other_thread

MOMENT = 1_700_000_000.25


@dataclasses.dataclass
class _Note:
    at: datetime = dataclasses.field(default_factory=datetime.now)
    seconds: float = dataclasses.field(default_factory=time.time)
    day: date = dataclasses.field(default_factory=date.today)
    drawn: float = dataclasses.field(default_factory=random.random)


class _Model(pydantic.BaseModel):
    at: datetime = pydantic.Field(default_factory=datetime.now)
    zoned: datetime = pydantic.Field(default_factory=functools.partial(datetime.now, UTC))
    keyword: datetime = pydantic.Field(default_factory=functools.partial(datetime.now, tz=UTC))
    nanoseconds: int = pydantic.Field(default_factory=time.time_ns)
    year: str = pydantic.Field(default_factory=functools.partial(time.strftime, "%Y"))
    drawn: float = pydantic.Field(default_factory=random.random)
    chosen: str = pydantic.Field(default_factory=functools.partial(random.choice, list("abcdefgh") * 100))
    number: int = pydantic.Field(default_factory=functools.partial(random.randint, 0, 10**9))


class _Attributes:
    tell: ClassVar[Any] = time.time
    now: ClassVar[Any] = datetime.now


_TABLE = {
    "time": time.time,
    "now": datetime.now,
    "today": datetime.today,
    "bits": random.getrandbits,
    "sleep": time.sleep,
}
_TABLE["local"] = time.localtime


def _default(tell: Any = time.time, now: Any = datetime.now) -> Any:
    return tell(), now()


def _closure() -> Callable[[], Any]:
    tell, sleep = time.time, time.sleep

    def ask() -> Any:
        before = tell()
        sleep(0.001)
        return before, tell()

    return ask


_ASK = _closure()


def _drawn() -> list[Any]:
    return [
        *(dataclasses.astuple(_Note()), _Model().model_dump(), _default(), _ASK()),
        *(_Attributes.tell(), _Attributes().now(), _TABLE["bits"](64)),
        *(_TABLE[name]() for name in ("time", "now", "today")),
    ]


def test_all_references_are_frozen(session: OpenSession) -> None:
    """Default factories, defaults, partials, class attributes, tables and closures; the same in every session."""
    rounds = []
    for _ in range(2):
        with session():
            rounds.append(_drawn())
    assert rounds[0] == rounds[1]
    assert rounds[0][0][:2] == (datetime.fromtimestamp(MOMENT), MOMENT)
    assert rounds[0][1]["zoned"] == rounds[0][1]["keyword"] == datetime.fromtimestamp(MOMENT, UTC)


def test_they_replay(tmp_path: Any) -> None:
    """Through the public face, with a request that holds them."""
    path = tmp_path / "a.yaml"
    with use_cassette(path, mode="all"):
        recorded = _drawn()
    with use_cassette(path):
        assert _drawn() == recorded


def test_they_are_real_outside(session: OpenSession) -> None:
    """Before, after, in a thread of nobody's, and in a session that freezes something else."""
    references = [_TABLE["time"], _default, _Note, _Model]
    for kinds in ([], ["uuid"]):
        with session(kinds=kinds):
            assert _Note().seconds == pytest.approx(time.monotonic() + time.time() - time.monotonic(), abs=60)
    seen: list[float] = []
    with session():
        in_other_thread(lambda: seen.append(_Note().seconds))
    assert seen[0] > MOMENT + 60
    assert _Model().at.timestamp() == pytest.approx(time.time(), abs=60)
    assert _drawn() != _drawn()
    assert _TABLE["time"] is time.time
    assert references[0] is time.time


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_utcnow(session: OpenSession) -> None:
    """It is frozen, and warns where Python's own does."""
    now = datetime.utcnow
    with session():
        assert now() == datetime.fromtimestamp(MOMENT, UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: _TABLE["time"](1), TypeError),
        (lambda: _TABLE["local"]("soon"), TypeError),
        (lambda: _TABLE["bits"](-1), ValueError),
        (lambda: _TABLE["sleep"](-1), ValueError),
    ],
)
@pytest.mark.parametrize("kinds", [["clock", "random"], []])
def test_errors_are_raised_where_it_is_called(
    session: OpenSession, call: Callable[[], Any], error: type[Exception], kinds: list[str]
) -> None:
    """As the real functions raise them, and none is lost in C."""
    with session(kinds=kinds):
        with pytest.raises(error, match=r"."):
            call()
        assert _TABLE["time"]() > 0


@pytest.mark.slow
def test_many_at_once(session: OpenSession) -> None:
    """From many tasks and threads, while sessions open and close around them."""
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            _Model()
            _Note()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()

    async def tasks() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(_Note) for _ in range(3)))

    try:
        for _ in range(4):
            with session():
                assert {note.seconds for note in asyncio.run(tasks())} == {MOMENT}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert _Note().seconds > MOMENT + 60
