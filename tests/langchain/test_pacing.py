"""With `pace` a replay takes the time that was recorded, and none of it moves the frozen clock."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_core.session import pacing
from agenttape_langchain import ReplayChatModel

from ..kit.replaying import Twice
from .fakes import AsyncChat, NativeChat, PlainChat, StreamingChat, World


class Clockwork(pacing.Waiter):
    """Time that passes only while somebody waits, and by nothing else."""

    def __init__(self) -> None:
        self.moment = 100.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.moment

    def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds * 1000, 3))
        self.moment += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clockwork(monkeypatch: pytest.MonkeyPatch) -> Clockwork:
    """A replacement of the sleeps of replays, which notes them."""
    clockwork = Clockwork()
    monkeypatch.setattr(pacing, "waiter", clockwork)
    return clockwork


def with_timings(path: Path, *timings: str) -> Path:
    """Write other times into a cassette: number, duration and the moments of the chunks, in milliseconds."""
    text = path.read_text("utf-8")
    start = text.index("  timings: |\n") + len("  timings: |\n")
    end = text.index("---\n", start)
    path.write_text(text[:start] + "".join(f"    {line}\n" for line in timings) + text[end:], "utf-8")
    return path


@pytest.fixture
def streamed(world: World, tmp_path: Path) -> Path:
    """A stream of five chunks: the first after 100 ms, then one every 20 ms, and the end 5 ms after the last."""
    path = tmp_path / "streamed.yaml"
    world.gone = False
    with use_cassette(path, mode="all"):
        list(NativeChat(world=world).stream("hi"))
    world.gone = True
    return with_timings(path, "1 185.0 100.0 120.0 140.0 160.0 180.0")


@pytest.fixture
def returned(world: World, tmp_path: Path) -> Path:
    """An answer that took 300 ms."""
    path = tmp_path / "returned.yaml"
    world.gone = False
    with use_cassette(path, mode="all"):
        PlainChat(world=world).invoke("hi")
    world.gone = True
    return with_timings(path, "1 300.0")


async def stream(model: Any) -> None:
    list(model.stream("hi"))


async def astream(model: Any) -> None:
    _ = [chunk async for chunk in model.astream("hi")]


async def invoke(model: Any) -> None:
    model.invoke("hi")


async def ainvoke(model: Any) -> None:
    await model.ainvoke("hi")


@pytest.mark.sweep
@pytest.mark.parametrize("read", [stream, astream])
@pytest.mark.parametrize(
    ("pace", "waits"),
    [("recorded", [100.0, 20.0, 20.0, 20.0, 20.0, 5.0]), (0.1, [10.0, 2.0, 2.0, 2.0, 2.0, 0.5]), ("none", []), (0, [])],
)
async def test_streams(pace: Any, waits: list[float], read: Any, streamed: Path, clockwork: Clockwork) -> None:
    """A stream waits for its first chunk, between its chunks and for its end, times the number."""
    with use_cassette(streamed, pace=pace):
        await read(NativeChat(world=World()))
    assert clockwork.waits == waits


@pytest.mark.parametrize("call", [invoke, ainvoke])
async def test_plain_calls(call: Any, world: World, returned: Path, clockwork: Clockwork) -> None:
    """A plain call takes its duration."""
    with use_cassette(returned, pace="recorded"):
        await call(PlainChat(world=world))
    assert clockwork.waits == [300.0]


async def test_one_form_serves_the_other(world: World, streamed: Path, returned: Path, clockwork: Clockwork) -> None:
    """A stream that serves a plain call takes its whole time, and so does the one chunk of a plain recording."""
    with use_cassette(streamed, pace="recorded"):
        NativeChat(world=world).invoke("hi")
    with use_cassette(returned, pace="recorded"):
        list(StreamingChat(world=world).stream("hi"))
    assert clockwork.waits == [185.0, 300.0]


async def test_readers_that_are_late(world: World, streamed: Path, clockwork: Clockwork) -> None:
    """A reader's own time counts: chunks that are due already come at once, and the end is not later for it."""
    with use_cassette(streamed, pace="recorded"):
        chunks = NativeChat(world=world).stream("hi")
        next(chunks)
        clockwork.moment += 0.050
        list(chunks)
    assert clockwork.waits == [100.0, 10.0, 20.0, 5.0]


async def test_errors(world: World, tmp_path: Path, clockwork: Clockwork) -> None:
    """A recorded error comes when it came, and a miss at once."""

    @tool
    def fail() -> str:
        """Fail."""
        raise ConnectionError(f"lost {world.reach('tool')}")

    path = tmp_path / "fail.yaml"
    with use_cassette(path, mode="all"), pytest.raises(ConnectionError):
        fail.invoke({})
    with_timings(path, "1 40.0")
    with pytest.raises(CassetteMissError), use_cassette(path, pace="recorded"):
        with pytest.raises(ConnectionError):
            fail.invoke({})
        assert clockwork.waits == [40.0]
        fail.invoke({})
    assert clockwork.waits == [40.0]


async def test_parallel_calls(world: World, monkeypatch: pytest.MonkeyPatch, twice: Twice) -> None:
    """Calls that ran side by side wait side by side: none waits for another."""
    model = NativeChat(world=world)
    with twice.records():
        await model.abatch(["a", "b", "c"])
    with_timings(twice.path, "1 30.0", "2 20.0", "3 10.0")
    all_wait = asyncio.Barrier(3)

    class Together(Clockwork):
        async def asleep(self, seconds: float) -> None:
            self.waits.append(round(seconds * 1000, 3))
            await all_wait.wait()

    together = Together()
    monkeypatch.setattr(pacing, "waiter", together)
    with twice.replays(pace="recorded"):
        await asyncio.wait_for(model.abatch(["a", "b", "c"]), 10)
    assert sorted(together.waits) == [10.0, 20.0, 30.0]


async def test_the_frozen_clock_does_not_pass(world: World, streamed: Path) -> None:
    """The wait is real and takes no frozen time, as the real call took none: the run sees the same moments."""
    model = NativeChat(world=world)
    with use_cassette(streamed, pace=0.02, on_repeat="cycle"):
        before = time.time()
        await astream(model)
        await stream(model)
        assert time.time() == before


async def test_cancellation(world: World, returned: Path) -> None:
    """A task that waits for its answer can be cancelled, and a timeout ends it."""
    with_timings(returned, "1 3600000.0")
    with use_cassette(returned, pace="recorded"):
        waiting = asyncio.create_task(AsyncChat(world=world).ainvoke("hi"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting, 0.01)


@pytest.mark.parametrize("call", [invoke, ainvoke, stream, astream])
async def test_stand_in_models(call: Any, world: World, streamed: Path, clockwork: Clockwork) -> None:
    """`ReplayChatModel` takes the recorded time, too, with the option for it."""
    await call(ReplayChatModel(streamed))
    assert clockwork.waits == []
    await call(ReplayChatModel(streamed, pace=0.5))
    assert sum(clockwork.waits) == 92.5


def test_unknown_times(world: World, streamed: Path, clockwork: Clockwork) -> None:
    """A recording without times is replayed at once."""
    with_timings(streamed, "2 10.0")
    with use_cassette(streamed, pace="recorded"):
        NativeChat(world=world).invoke("hi")
    assert clockwork.waits == []
    assert set(open_cassette(streamed).header.volatile.timings) == {2}


@pytest.mark.parametrize("pace", ["fast", -1, float("nan"), float("inf"), True, [1]])
def test_no_pace(pace: Any, streamed: Path) -> None:
    """An invalid pace is refused, and the message lists the valid ones."""
    with pytest.raises(ConfigurationError, match="expected 'none', 'recorded', or a number"):
        use_cassette(streamed, pace=pace).__enter__()
