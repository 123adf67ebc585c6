"""What a replay has started, and which runs on after its end, touches nothing; what a recording has started goes on."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import AfterReplayWarning, AgentTapeHalt, CassetteMissError, NetworkBlockedError
from agenttape_core.guard import process

from .world import World, astream, in_thread, record, settle

Program = Callable[[Callable[[], Any]], Callable[[], Any]]
"""Starts what it is given, and returns how to let it go on and to wait for it."""


def in_a_thread(action: Callable[[], Any]) -> Callable[[], Any]:
    """Run in a bare thread."""
    future: Future[Any] = Future()
    gate = threading.Event()
    thread = threading.Thread(target=lambda: (gate.wait(), settle(future, action)))
    thread.start()

    def finish() -> Any:
        gate.set()
        thread.join()
        return future.result()

    return finish


def in_a_thread_of_a_thread(action: Callable[[], Any]) -> Callable[[], Any]:
    """Run in a thread that a thread starts after the replay."""
    return in_a_thread(lambda: in_thread(action))


def in_a_loop_of_a_thread(action: Callable[[], Any]) -> Callable[[], Any]:
    """Run in an event loop of a bare thread."""

    async def run() -> Any:
        return action()

    return in_a_thread(lambda: asyncio.run(run()))


def in_a_pool(action: Callable[[], Any]) -> Callable[[], Any]:
    """Run in a thread pool."""
    gate = threading.Event()
    pool = ThreadPoolExecutor(1)
    future = pool.submit(lambda: (gate.wait(), action())[1])

    def finish() -> Any:
        gate.set()
        pool.shutdown()
        return future.result()

    return finish


def in_a_callback(action: Callable[[], Any]) -> Callable[[], Any]:
    """Run in a callback of an event loop, with the context in which it was asked for."""
    loop = asyncio.new_event_loop()
    future: Any = loop.create_future()

    async def ask() -> None:
        loop.call_soon(settle, future, action)

    asking = loop.create_task(ask())

    def finish() -> Any:
        try:
            loop.run_until_complete(asking)
            return loop.run_until_complete(future)
        finally:
            loop.close()

    return finish


def in_a_task(action: Callable[[], Any]) -> Callable[[], Any]:
    """Run in a task of an event loop."""
    loop = asyncio.new_event_loop()

    async def run() -> Any:
        return action()

    task = loop.create_task(run())

    def finish() -> Any:
        try:
            return loop.run_until_complete(task)
        finally:
            loop.close()

    return finish


EVERYWHERE = pytest.mark.parametrize(
    "start", [in_a_thread, in_a_thread_of_a_thread, in_a_loop_of_a_thread, in_a_pool, in_a_callback, in_a_task]
)


@pytest.fixture
def listening() -> Iterator[Any]:
    """The address of a server that nobody may reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@EVERYWHERE
def test_call_after_a_replay(world: World, start: Program) -> None:
    """A call is neither executed nor replayed; the caller gets a miss, and a warning names the place."""
    record(world, "a")
    with use_cassette("c", on_unused="ignore") as session:
        finish = start(lambda: world.tool("a", tool="a"))
    with pytest.warns(AfterReplayWarning, match="called at .*world.py:"), pytest.raises(CassetteMissError) as caught:
        finish()
    assert "after the replay of cassettes/c.yaml had ended" in str(caught.value)
    assert world.reached == ["a"]
    assert session.report.missed == (caught.value.summary,)


@EVERYWHERE
def test_connection_after_a_replay(world: World, start: Program, listening: Any) -> None:
    """The guard holds for all that a replay has started, and for nobody else."""
    record(world, "a")
    with use_cassette("c", on_unused="ignore") as session:
        finish = start(lambda: socket.create_connection(listening))
    socket.create_connection(listening).close()
    with pytest.warns(AfterReplayWarning), pytest.raises(NetworkBlockedError, match="had ended"):
        finish()
    assert len(session.report.blocked) == 1
    socket.create_connection(listening).close()


def test_warning_as_an_error(world: World) -> None:
    """Where warnings are errors, the caller gets the miss all the same: an `Exception` could be taken for an answer."""
    record(world, "a")
    with use_cassette("c", on_unused="ignore"):
        finish = in_a_task(lambda: world.tool("a"))
    with pytest.raises(CassetteMissError) as caught:
        finish()
    assert isinstance(caught.value.__cause__, AfterReplayWarning)


@EVERYWHERE
def test_call_after_a_recording(world: World, start: Program) -> None:
    """A recording had its calls really made, and so are those that come later; they are not recorded."""
    with use_cassette("c", mode="all") as session:
        finish = start(lambda: world.tool("a"))
    assert finish() == "a 1"
    assert session.report.recorded == ()


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.AfterReplayWarning")
def test_work_belongs_to_whoever_submits_it(world: World) -> None:
    """A pool whose threads a replay has started serves others after it, in a session and outside."""
    record(world, "a")
    with ThreadPoolExecutor(1) as pool:
        with use_cassette("c"):
            assert pool.submit(world.tool, "a", tool="a").result() == "a 1"
            gate = threading.Event()
            late = pool.submit(lambda: (gate.wait(), world.tool("a")))
        with use_cassette("d", mode="all") as recording:
            gate.set()
            with pytest.raises(CassetteMissError):
                late.result()
            assert pool.submit(world.tool, "b").result() == "b 2"
        assert pool.submit(world.tool, "c").result() == "c 3"
    assert [call_record.name for call_record in recording.report.recorded] == ["b"]


@pytest.mark.slow
def test_loop_that_a_replay_has_started_in_a_thread(world: World) -> None:
    """Its later tasks belong to whoever asks for them."""
    record(world, "a")
    loop = asyncio.new_event_loop()
    with use_cassette("c", on_unused="ignore"):
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
    try:
        assert asyncio.run_coroutine_threadsafe(world.atool("b"), loop).result() == "b 2"
        with use_cassette("c"):
            assert asyncio.run_coroutine_threadsafe(world.atool("a", tool="a"), loop).result() == "a 1"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_session_that_is_left_in_another_context(world: World) -> None:
    """The context that a replay was entered in does not outlive it, wherever it was left."""
    record(world, "a")
    block = use_cassette("c", on_unused="ignore")
    block.__enter__()
    in_thread(lambda: block.__exit__(None, None, None))
    assert world.tool("b") == "b 2"


def test_task_of_an_inner_replay_in_an_outer_recording(world: World) -> None:
    """What an inner replay has started does not become part of a recording around it."""
    record(world, "a")

    async def later(go: asyncio.Event) -> str:
        await go.wait()
        return await world.atool("late")

    async def program() -> None:
        go = asyncio.Event()
        with use_cassette("outer", mode="all"):
            with use_cassette("c", on_unused="ignore"):
                task = asyncio.create_task(later(go))
            go.set()
            with pytest.warns(AfterReplayWarning), pytest.raises(AgentTapeHalt):
                await task
            assert await world.atool("b") == "b 2"

    asyncio.run(program())
    assert world.reached == ["a", "b"]


def test_nothing_stays_when_nothing_outlives(world: World) -> None:
    """A replay whose tasks and threads have ended leaves no guard behind."""
    with use_cassette("alone", mode="all"):
        world.tool("a", tool="a")

    async def program() -> None:
        async with use_cassette("alone"):
            await asyncio.gather(asyncio.sleep(0), asyncio.to_thread(world.tool, "a", tool="a"))

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(program())
        with use_cassette("alone"):
            pool.submit(world.tool, "a", tool="a").result()
    assert not [opened for opened in process._guards.all if "alone" in opened.guard.name]


@pytest.mark.parametrize("is_left_in_a_thread", [False, True])
def test_a_stream_that_is_read_on_after_its_replay(world: World, *, is_left_in_a_thread: bool) -> None:
    """Its rest comes from the recording, at once, and nobody waits for a turn that nothing gives any more."""

    async def read(mode: str) -> list[str]:
        block = use_cassette("c", mode=mode)
        block.__enter__()
        chunks = astream("model", lambda: world.apieces("model", "abc"))
        if mode == "all":
            got = [chunk async for chunk in chunks]
            block.__exit__(None, None, None)
            return got
        got = [await anext(chunks)]
        if is_left_in_a_thread:
            await asyncio.to_thread(block.__exit__, None, None, None)
        else:
            block.__exit__(None, None, None)
        return got + [chunk async for chunk in chunks]

    recorded = asyncio.run(read("all"))
    assert asyncio.run(asyncio.wait_for(read("none"), 30)) == recorded
    assert world.reached == ["model"]
