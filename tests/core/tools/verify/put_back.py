"""Programs that `verify` replays with old defects put back, by undoing what corrects them.

Only child processes import this with `PUT_BACK` set: there, each program runs without what it depends on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, CassetteNotFoundError, NetworkBlockedError, UnusedInteractionsError
from agenttape_core.freeze.frozen import Frozen
from agenttape_core.freeze.readings import ReadingLog
from agenttape_core.freeze.references import References
from agenttape_core.scheduling import Scheduler
from agenttape_core.session.answered_call import AnsweredCall

NAMES = "abc"
"""In the reverse of the order in which they are answered when the programs are recorded."""


class Service:
    """Answers one after the other, the last one first."""

    def __init__(self, event: type[asyncio.Event | threading.Event]) -> None:
        self.turns: Any = {name: event() for name in NAMES}
        self.turns[NAMES[-1]].set()

    def answered(self, name: str) -> None:
        """Let the one before answer."""
        self.turns[NAMES[NAMES.index(name) - 1]].set()


async def race() -> list[str]:
    """Return answers as they come."""
    service, came = Service(asyncio.Event), []

    @boundary
    async def ask(name: str) -> str:
        await service.turns[name].wait()
        return name

    for answer in asyncio.as_completed(map(ask, NAMES)):
        came.append(await answer)
        service.answered(came[-1])
    return came


def race_of_threads() -> list[str]:
    """Return answers as threads get them."""
    service, came = Service(threading.Event), []

    @boundary
    def ask(name: str) -> str:
        service.turns[name].wait()
        return name

    def one(name: str) -> None:
        came.append(ask(name))
        time.sleep(0.002)  # in the recording, whose times tell moments that are further apart than a millisecond
        service.answered(name)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        for name in NAMES:
            pool.submit(one, name)
    return came


async def timeout() -> str:
    """Give up."""

    @boundary
    async def ask() -> None:
        await asyncio.Event().wait()

    try:
        return str(await asyncio.wait_for(ask(), 0.01))
    except (TimeoutError, CassetteMissError) as error:
        return type(error).__name__


async def naps() -> list[float]:
    """Return how long naps side by side take."""

    @boundary
    def seconds(number: int) -> float:
        return 0.01 * number

    began = time.time()

    async def nap(number: int) -> float:
        await asyncio.sleep(seconds(number))
        return round(time.time() - began, 3)

    return await asyncio.gather(*map(nap, range(1, 4)))


@dataclasses.dataclass
class Note:
    """What is written, and when: by a clock that the class has held since it was defined."""

    made: float = dataclasses.field(default_factory=time.time)


def note() -> float:
    """Return when a note is made."""
    return Note().made


def small_pool() -> list[str]:
    """Return answers in the order in which they were asked for, from a pool that is too small for what was recorded."""
    size = 1 if "PUT_BACK" in os.environ else 2
    met = threading.Barrier(size)

    @boundary
    def ask(name: str) -> str:
        return name

    def one(name: str) -> str:
        met.wait(30)
        return ask(name)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, "ab"))


@boundary
def _look_up(what: str) -> str:
    return f"heard {what}"


def other_call() -> str:
    """Ask for something else than was recorded: no call has a recording."""
    return _look_up("tea" if "PUT_BACK" in os.environ else "water")


def no_call() -> str:
    """Ask for nothing any more."""
    return "" if "PUT_BACK" in os.environ else _look_up("water")


def connection() -> None:
    """Connect, where no boundary is, and go on when that is refused."""
    if "PUT_BACK" in os.environ:
        with suppress(NetworkBlockedError):
            socket.create_connection(("192.0.2.1", 9))


def renamed() -> str:
    """Open a cassette that is not there any more, and go on without it."""
    with suppress(CassetteNotFoundError), use_cassette("moved" if "PUT_BACK" in os.environ else "named", mode="once"):
        return _look_up("water")
    return ""


def _add_up(self: Frozen, seconds: float, **_: float) -> None:
    vars(self)["_passed"] = self.passed + seconds


def _without_order(begin: Callable[..., None]) -> Callable[..., None]:
    return lambda self, recorded=None, **how: begin(self, recorded, **{**how, "imposes": False})


@contextmanager
def _put_back(*undone: tuple[type, str, object]) -> Iterator[None]:
    """While inside, undo corrections, if this is a child process that is to."""
    patches = [patch.object(*each) for each in undone] if "PUT_BACK" in os.environ else []
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


PROGRAMS: dict[str, tuple[Callable[[], Any], tuple[tuple[type, str, object], ...]]] = {
    "race": (race, ((Scheduler, "__init__", _without_order(Scheduler.__init__)),)),
    "threads": (race_of_threads, ((Scheduler, "__init__", _without_order(Scheduler.__init__)),)),
    "timeout": (timeout, ((AnsweredCall, "was_cancelled", False),)),
    "naps": (naps, ((Frozen, "pass_time", _add_up), (ReadingLog, "recorded", lambda *_: {}))),
    "small": (small_pool, ()),
    "note": (note, ((References, "swap_in", lambda _: None),)),
    "other": (other_call, ()),
    "no_call": (no_call, ()),
    "connection": (connection, ()),
    "renamed": (renamed, ()),
}
"""The programs, each with what it depends on, and what stands in its place when that is undone."""


def all_programs() -> dict[str, Any]:
    """Run each of the programs under a cassette of its own, and return what each returns."""
    if counted := os.environ.get("COUNTED"):
        with open(counted, "a", encoding="utf-8") as file:  # noqa: PTH123 - without a step of the frozen world
            file.write(f"{os.getpid()}\n")
    found = {}
    for name, (program, undone) in PROGRAMS.items():
        with _put_back(*undone):
            try:
                found[name] = _run(name, program)
            except (CassetteMissError, UnusedInteractionsError, NetworkBlockedError) as failure:  # nobody hears of it
                found[name] = str(failure).partition("\n")[0]
    return found


def _run(name: str, program: Callable[[], Any]) -> Any:
    with use_cassette(name, mode="once"):
        value = program()
        return asyncio.run(value) if asyncio.iscoroutine(value) else value
