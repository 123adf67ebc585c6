"""Rate limiters wait as a part of the calls that they let through."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool

from agenttape_core import use_cassette

from .fakes import AsyncChat, NativeChat, PlainChat, World


class LastFirst(BaseRateLimiter):
    """A limiter that lets the last of several callers through first, once all are there.

    Args:
        callers: Their number.
    """

    def __init__(self, callers: int = 1) -> None:
        self.asked = 0
        self._callers = callers
        self._is_open = threading.Condition()
        self._left = callers
        self._turns: list[asyncio.Event] = []

    def acquire(self, *, blocking: bool = True) -> bool:
        """Wait for the callers that come later."""
        with self._is_open:
            self.asked += 1
            number = self.asked
            self._is_open.notify_all()
            self._is_open.wait_for(lambda: self.asked == self._callers and self._left == number)
            self._left -= 1
            self._is_open.notify_all()
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Wait for the callers that come later."""
        self.asked += 1
        self._turns.append(turn := asyncio.Event())
        if self.asked == self._callers:
            turn.set()
        await turn.wait()
        self._turns.pop()
        if self._turns:
            self._turns[-1].set()
        return True


def branches(model: Any) -> tuple[Any, list[str]]:
    """Return three calls of a model at once, and the list of who was answered, in that order."""
    order: list[str] = []

    def noting(name: str) -> Any:
        def note(message: Any) -> str:
            order.append(name)
            return str(message.text)

        async def anote(message: Any) -> str:
            return note(message)

        return model | RunnableLambda(note, anote)

    return RunnableParallel({name: noting(name) for name in "abc"}), order


def test_calls_are_answered_as_the_limiter_let_them_through(tmp_path: Path, world: World) -> None:
    """In an event loop, a replay asks no limiter, and answers in the recorded order."""
    limiter = LastFirst(3)
    chain, recorded_order = branches(AsyncChat(world=world, rate_limiter=limiter))
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(chain.ainvoke("Hello?"))
    assert limiter.asked == 3
    world.gone = True
    chain, order = branches(AsyncChat(world=world, rate_limiter=limiter))
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert asyncio.run(chain.ainvoke("Hello?")) == recorded
    assert order == recorded_order == ["c", "b", "a"]
    assert replay.report.nondeterminism == ()
    assert limiter.asked == 3


def test_threads_are_answered_as_the_limiter_let_them_through(tmp_path: Path, world: World) -> None:
    """In threads, too."""
    chain, recorded_order = branches(PlainChat(world=world, rate_limiter=LastFirst(3)))
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = chain.invoke("Hello?")
    world.gone = True
    limiter = LastFirst(3)
    chain, order = branches(PlainChat(world=world, rate_limiter=limiter))
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert chain.invoke("Hello?") == recorded
    assert order == recorded_order
    assert replay.report.nondeterminism == ()
    assert limiter.asked == 0


async def _read(model: Any, question: str) -> None:
    async for _ in model.astream(question):
        pass


SHAPES: dict[str, Any] = {
    "invoke": lambda model: model.invoke("Hello?"),
    "stream": lambda model: list(model.stream("Hello?")),
    "ainvoke": lambda model: asyncio.run(model.ainvoke("Hello?")),
    "astream": lambda model: asyncio.run(_read(model, "Hello?")),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_executed_waits_first(shape: str, tmp_path: Path, world: World) -> None:
    """A call that is executed for real waits for its limiter once, before the model is reached."""
    reached: list[int] = []

    class Noting(LastFirst):
        def acquire(self, *, blocking: bool = True) -> bool:
            reached.append(len(world.reached))
            return super().acquire(blocking=blocking)

        async def aacquire(self, *, blocking: bool = True) -> bool:
            reached.append(len(world.reached))
            return await super().aacquire(blocking=blocking)

    for options in ({"mode": "all"}, {"live": {"chat"}}):
        world.reached.clear()
        with use_cassette(tmp_path / "c.yaml", **options):  # type: ignore[arg-type]
            SHAPES[shape](NativeChat(world=world, rate_limiter=Noting()))
        assert len(world.reached) == 1
    assert reached == [0, 0]


def test_a_program_that_asks_a_limiter_itself_waits(tmp_path: Path) -> None:
    """A limiter that a tool asks is asked there, in a recording and in a replay."""
    limiter = LastFirst()

    @tool
    def look() -> str:
        """Look."""
        return str(limiter.acquire())

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        assert look.invoke({}) == "True"
    assert limiter.asked == 1
