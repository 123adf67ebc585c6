"""What a thread and an event loop do to one object has an order."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from tests.kit.asking import ask

from agenttape_core import use_cassette
from agenttape_core.scheduling import stalls

from ...kit.replaying import recorded_as_replayed
from .world import beside

ITEMS = 5


def here(work: Callable[[], None]) -> None:
    """Work in the thread of the job."""
    work()


def below(work: Callable[[], None]) -> None:
    """Work in a thread of the job's own pool, as the nodes of a graph that a tool runs."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(copy_context().run, work).result()


def in_a_loop(work: Callable[[], None]) -> None:
    """Work in the thread of the job while it has an event loop of its own, as asynchronous handlers of callbacks."""

    async def run() -> None:
        work()

    asyncio.run(run())


@pytest.mark.parametrize("where", [here, below, in_a_loop], ids=lambda where: where.__name__)
def test_a_reader_sees_what_a_thread_has_put_there_in_each_run(
    where: Callable[[Callable[[], None]], None], tmp_path: Path
) -> None:
    """What the thread does to the same object before it waits comes before a reader in the loop, in each run."""

    async def program() -> list[Any]:
        loop, items, seen = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]](), []

        def work() -> None:
            for number in range(ITEMS):
                item: dict[str, Any] = {"number": number, "id": None}
                loop.call_soon_threadsafe(items.put_nowait, item)
                item["id"] = number

        async def read() -> None:
            for _ in range(ITEMS):
                seen.append(dict(await items.get()))  # noqa: PERF401 - at this moment

        await asyncio.gather(read(), asyncio.to_thread(where, work), ask("who"))
        return [*seen, await ask(str(seen))]

    recorded = recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 3)
    assert recorded[:ITEMS] == [{"number": number, "id": number} for number in range(ITEMS)]


def test_a_limit_is_extended_by_what_the_thread_that_waited_most_for_a_processor_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any thread may be the one that is waited for; what was counted once is not counted again, nor is too much."""
    late = {1: 5.0, 2: 1.0}
    monkeypatch.setattr(stalls, "_all_late", lambda: dict(late))
    lateness = stalls.Lateness()
    assert lateness.more() == 0.0
    late |= {1: 5.25, 2: 1.5, 3: 0.25}
    assert (lateness(), lateness.more(), lateness.more()) == (0.5, 0.5, 0.0)
    late[3] = 100.0
    assert lateness() == stalls.LONGEST


def test_a_thread_whose_frame_is_none_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Python gives in the place of a frame, a look at threads passes over it."""
    real = sys._current_frames

    def given() -> dict[int, Any]:
        return {**real(), 1: "not a frame"}

    monkeypatch.setattr(sys, "_current_frames", given)
    assert {*stalls.frames()} == {*real()}


def test_a_loop_that_waits_for_a_lock_of_the_thread_lets_it_go(tmp_path: Path) -> None:
    """A thread that puts something into a loop while it has a lock which the loop needs goes on."""

    async def program() -> list[str]:
        loop, lock, seen, over = asyncio.get_running_loop(), threading.Lock(), list[str](), asyncio.Event()

        def come() -> None:
            with lock:
                seen.append("come")
            over.set()

        def work() -> None:
            with lock:
                loop.call_soon_threadsafe(come)
                seen.append("put")

        await asyncio.gather(asyncio.to_thread(work), over.wait(), ask("who"))
        return seen

    assert recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 1) == ["put", "come"]


def test_a_loop_that_waits_for_the_end_of_the_thread_lets_it_go(tmp_path: Path) -> None:
    """A thread that puts something into a loop which waits for its end goes on, in the order that follows from that."""

    async def program() -> list[str]:
        loop, seen = asyncio.get_running_loop(), list[str]()

        def work() -> None:
            loop.call_soon_threadsafe(seen.append, "come")
            seen.append("put")

        async def join() -> None:
            thread = threading.Thread(target=copy_context().run, args=(work,))
            thread.start()
            thread.join(10)

        await asyncio.gather(ask("who"), join())
        return seen

    for mode in ("record", "replay"):
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            assert asyncio.run(program()) == ["put", "come"]
    assert not any("had come to what" in line for line in session.report.nondeterminism)


def test_what_the_garbage_collector_puts_into_a_queue_is_in_no_order(tmp_path: Path) -> None:
    """An object that is deleted, such as a connection to a database, ends its thread at any time, unseen."""
    deletes = iter([True, False, True])

    class Connection:
        def __init__(self, work: queue.SimpleQueue[Any]) -> None:
            self._work = work

        def __del__(self) -> None:
            self._work.put_nowait((asyncio.get_event_loop().create_future(), str))

    async def program() -> list[str]:
        work, log = queue.SimpleQueue[Any](), list[str]()

        def drive() -> None:
            while (item := work.get()) is not None:
                future, function = item
                future.get_loop().call_soon_threadsafe(future.set_result, function())

        async def answered(name: str) -> None:
            future = asyncio.get_running_loop().create_future()
            work.put((future, str))
            await future
            log.append(name)

        with beside(drive):
            if next(deletes):
                Connection(work)
            await asyncio.gather(answered("first"), ask("who"), answered("second"))
            await answered("third")
            work.put(None)
        return log

    recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()))
