"""A replay skips the sleeps of frameworks between two attempts; the frozen clock advances all the same."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

from agenttape_core import use_cassette
from agenttape_core.freeze import clock, sleeping

from ..kit.replaying import Twice
from .fakes import AsyncChat, NativeChat, PlainChat, World, in_turn

SECONDS = 3600.0


class Slept:
    """The sleeps of the test: none really happens, and each is noted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    async def asleep(self, seconds: float, result: Any = None) -> Any:
        if seconds:  # giving others a turn is no sleep
            self.seconds.append(seconds)
        return result


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slept]:
    """Every sleep of the process goes here, `time.sleep` and `asyncio.sleep` alike."""
    slept = Slept()
    (stand_in,) = (stand_in for stand_in in clock.STAND_INS if stand_in.__wrapped__ is time.sleep)
    monkeypatch.setattr(stand_in, "__wrapped__", slept.sleep)
    monkeypatch.setattr(sleeping, "_REAL", slept.asleep)
    return slept


def at_the_third_attempt(messages: Sequence[BaseMessage], number: int) -> AIMessage:
    if number < 3:
        raise ConnectionError(f"refused {number}")
    return AIMessage(f"answer {number}")


def model(world: World) -> Any:
    """A model that answers at the third attempt."""
    return AsyncChat(world=world, reply=at_the_third_attempt)


def with_retry(world: World, seconds: float = SECONDS) -> Any:
    jitter: Any = {"exp_base": seconds, "max": 4 * seconds, "jitter": seconds / 100}
    return model(world).with_retry(stop_after_attempt=3, exponential_jitter_params=jitter)


def with_retry_policy(world: World) -> Any:
    asked = model(world)
    policy = RetryPolicy(initial_interval=SECONDS, max_interval=4 * SECONDS, max_attempts=3, retry_on=ConnectionError)

    async def call(state: Any) -> Any:
        return {"messages": [await asked.ainvoke(state["messages"])]}

    def call_sync(state: Any) -> Any:
        return {"messages": [asked.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("call", RunnableLambda(call_sync, call), retry_policy=policy)
    builder.add_edge(START, "call")
    return builder.compile()


def with_model_retries(world: World) -> Any:
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=SECONDS, max_delay=4 * SECONDS, on_failure="error")
    return create_agent(model(world), [], middleware=[retry])


def with_tool_retries(world: World) -> Any:
    @tool
    def fetch() -> str:
        """Fetch."""
        return at_the_third_attempt([], world.reach("tool") - 1).text

    retry = ToolRetryMiddleware(max_retries=2, initial_delay=SECONDS, max_delay=4 * SECONDS)
    return create_agent(AsyncChat(world=world, reply=in_turn([("fetch", {})])), [fetch], middleware=[retry])


WAYS: list[Callable[[World], Any]] = [with_retry, with_retry_policy, with_model_retries, with_tool_retries]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:.*Retrying task")
async def test_back_off_is_skipped(
    way: Callable[[World], Any], is_async: bool, world: World, slept: Slept, tmp_path: Path
) -> None:
    """A recording sleeps twice between three attempts, a replay never; both see the same times and results."""
    runnable = way(world)
    path = tmp_path / "agent.yaml"

    async def run() -> Any:
        began = time.time()
        asked: Any = "hi" if way is with_retry else {"messages": [("user", "hi")]}
        answer = await runnable.ainvoke(asked) if is_async else runnable.invoke(asked)
        return answer, time.time() - began

    with use_cassette(path, mode="all"):
        recorded = await run()
    assert len(slept.seconds) == 2
    assert recorded[1] == pytest.approx(sum(slept.seconds), abs=0.01)
    slept.seconds.clear()
    world.gone = True
    with use_cassette(path):
        assert await run() == recorded
    assert slept.seconds == []


async def test_without_a_frozen_clock(world: World, slept: Slept, twice: Twice) -> None:
    """A cassette that freezes nothing, as one that a handler observed, is replayed without back-off too."""
    runnable = with_retry(world, seconds=0.01)
    with twice.records(freeze=()):
        runnable.invoke("hi")  # really sleeps: where nothing is frozen, sleeps are not ours to note
    with twice.replays():
        runnable.invoke("hi")
        await asyncio.sleep(7)
        time.sleep(8)  # noqa: ASYNC251 - noted, not slept
    assert slept.seconds == [7, 8]


async def test_what_is_live_is_spared(world: World, slept: Slept, tmp_path: Path) -> None:
    """A replay with something live really backs off: a real service may be at the other end."""
    path = tmp_path / "agent.yaml"
    with use_cassette(path, mode="all"):
        with_retry(world).invoke("hi")
    slept.seconds.clear()
    world.reached.clear()
    with use_cassette(path, live={"chat"}):
        with_retry(world).invoke("hi")
    assert len(slept.seconds) == 2


async def test_the_users_sleeps_are_the_users(world: World, slept: Slept, tmp_path: Path) -> None:
    """A replay sleeps where the user's code does, also between attempts that the user's own code makes."""
    import tenacity

    asked = PlainChat(world=world, reply=at_the_third_attempt)
    path = tmp_path / "agent.yaml"

    @tenacity.retry(wait=tenacity.wait_fixed(5), stop=tenacity.stop_after_attempt(3))
    def persist() -> Any:
        return asked.invoke("hi")

    @tenacity.retry(wait=tenacity.wait_fixed(6), stop=tenacity.stop_after_attempt(3))
    async def apersist() -> Any:
        return await asked.ainvoke("hi")

    async def run() -> None:
        persist()
        await apersist()
        time.sleep(1)  # noqa: ASYNC251 - noted, not slept
        await asyncio.sleep(2)

    def reset(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        return at_the_third_attempt(messages, (number - 1) % 3 + 1)

    asked.reply = reset
    for mode in ("all", "none"):
        slept.seconds.clear()
        with use_cassette(path, mode=mode):
            await run()
        world.gone = True
        assert slept.seconds == [5, 5, 6, 6, 1, 2]


async def test_outside_of_the_session(world: World, slept: Slept, tmp_path: Path) -> None:
    """A task that belongs to no session backs off while another one is replayed."""
    attempts = []

    def refuse_once(_: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("once")

    jitter: Any = {"max": 9, "exp_base": 1000, "jitter": 0}
    runnable = RunnableLambda(refuse_once).with_retry(exponential_jitter_params=jitter)
    path = tmp_path / "agent.yaml"
    with use_cassette(path, mode="all"):
        with_retry(world).invoke("hi")
    slept.seconds.clear()
    world.gone = True
    may_begin = asyncio.Event()

    async def beside() -> None:
        await may_begin.wait()
        await runnable.ainvoke(1)

    task = asyncio.create_task(beside())
    with use_cassette(path):
        may_begin.set()
        await task
        with_retry(world).invoke("hi")
    assert slept.seconds == [1]


# -- rate limiters -------------------------------------------------------------------------------------------------


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


def test_calls_are_answered_as_the_limiter_let_them_through(world: World, twice: Twice) -> None:
    """In an event loop, a replay asks no limiter, and answers in the recorded order."""
    limiter = LastFirst(3)
    chain, recorded_order = branches(AsyncChat(world=world, rate_limiter=limiter))
    recorded = twice.record(lambda: asyncio.run(chain.ainvoke("Hello?")))
    assert limiter.asked == 3
    chain, order = branches(AsyncChat(world=world, rate_limiter=limiter))
    with twice.replays() as replay:
        assert asyncio.run(chain.ainvoke("Hello?")) == recorded
    assert order == recorded_order == ["c", "b", "a"]
    assert replay.report.nondeterminism == ()
    assert limiter.asked == 3


def test_threads_are_answered_as_the_limiter_let_them_through(world: World, twice: Twice) -> None:
    """In threads, too."""
    chain, recorded_order = branches(PlainChat(world=world, rate_limiter=LastFirst(3)))
    recorded = twice.record(lambda: chain.invoke("Hello?"))
    limiter = LastFirst(3)
    chain, order = branches(PlainChat(world=world, rate_limiter=limiter))
    with twice.replays() as replay:
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
