"""What threads answer, put into a loop, or do to its objects, comes in a replay when it came in the recording."""

from __future__ import annotations

import asyncio
import json
import queue
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.kit.asking import ask

from agenttape_core import boundary, use_cassette
from agenttape_core.scheduling import stalls

from ...kit.replaying import recorded_as_replayed
from .world import OlderThread, beside, in_thread

LIMIT = 30
"""Seconds after which a wait that another thread ends is an error."""


class World:
    """The outside. In a replay it is gone, and threads are as quick, or as slow, as they are not when recorded."""

    def __init__(self) -> None:
        self.gone = False
        self.goes_on = threading.Event()
        self.ask = boundary("call", name="ask")(self._ask)

    async def _ask(self, question: str) -> str:
        """Answer when the program lets it."""
        assert not self.gone, "was reached"
        await asyncio.sleep(0)
        while not self.goes_on.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.001)
        return f"{question}!"

    def dawdle(self) -> None:
        """Take a while in a replay."""
        if self.gone:
            time.sleep(0.02)


class Driver:
    """A thread with a queue of work, which answers futures of a loop, as a driver of a database does."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, function = work if type(work) is tuple else work()
            future.get_loop().call_soon_threadsafe(future.set_result, function())

    def do(self, function: Callable[[], Any], *, is_hidden: bool = False) -> asyncio.Future[Any]:
        """Have the thread call a function, and return the future of the result, which the queue may not show."""
        future = asyncio.get_running_loop().create_future()
        self._work.put_nowait((lambda: (future, function)) if is_hidden else (future, function))
        return future

    def close(self) -> None:
        """End the thread."""
        self._work.put(None)
        self._thread.join(LIMIT)


@contextmanager
def drivers(number: int) -> Iterator[list[Driver]]:
    """Begin drivers, and end them."""
    begun = [Driver() for _ in range(number)]
    try:
        yield begun
    finally:
        for driver in begun:
            driver.close()


async def two_drivers(world: World) -> list[str]:
    """Await two drivers at once; the first one answers last."""
    log: list[str] = []
    second_is_done = threading.Event()

    async def first(driver: Driver) -> None:
        await driver.do(lambda: second_is_done.wait(LIMIT))
        log.append("first")
        await world.ask(f"first after {len(log)}")

    async def second(driver: Driver) -> None:
        await driver.do(dict)
        log.append("second")
        second_is_done.set()
        await world.ask(f"second after {len(log)}")

    world.goes_on.set()
    with drivers(2) as (one, two):
        await asyncio.gather(first(one), second(two))
    return log


async def a_driver_beside_a_call(world: World) -> list[str]:
    """Await a driver beside a call; the driver answers first, though it is slow in the replay."""
    log: list[str] = []

    async def asking() -> None:
        log.append(await world.ask("who"))

    async def working(driver: Driver) -> None:
        await driver.do(world.dawdle)
        log.append("driver")
        world.goes_on.set()

    with drivers(1) as (driver,):
        await asyncio.gather(asking(), working(driver))
    return log


async def a_thread_that_posts(world: World) -> list[str]:
    """Let a thread of the program put something into the loop beside a call, which ends after that."""
    log: list[str] = []
    loop, begun = asyncio.get_running_loop(), threading.Event()

    def work() -> None:
        assert begun.wait(LIMIT)
        world.dawdle()
        loop.call_soon_threadsafe(come, "posted")

    def come(what: str) -> None:
        log.append(what)
        world.goes_on.set()

    with beside(work):
        asking = asyncio.create_task(world.ask("who"))
        await asyncio.sleep(0)
        begun.set()
        log.append(await asking)
    return log


async def a_job_before_a_timer(world: World) -> list[str]:
    """Await a thread beside a timer, which is due later; in the replay the thread is the slower one."""
    log: list[str] = []

    async def working() -> None:
        await asyncio.to_thread(world.dawdle)
        log.append("thread")

    async def sleeping() -> None:
        await asyncio.sleep(0.5 if not world.gone else 0.005)
        log.append("timer")

    world.goes_on.set()
    await asyncio.gather(working(), sleeping())
    return [*log, await world.ask("done?")]


PROGRAMS = [two_drivers, a_driver_beside_a_call, a_thread_that_posts, a_job_before_a_timer]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_threads_and_timers_come_when_they_came(program: Callable[[World], Awaitable[Any]], tmp_path: Path) -> None:
    """Threads that are as quick as others when it is replayed, and timers that are late, come in the recorded order."""
    world = World()

    async def run(**options: Any) -> tuple[Any, Any]:
        with use_cassette(tmp_path / "c.yaml", **options) as session:
            return await program(world), session.report

    recorded, _ = asyncio.run(run(mode="once"))
    world.gone = True
    for _ in range(3):
        replayed, report = asyncio.run(run())
        assert replayed == recorded
        # Whether a thread has to wait for its queue is up to the machine; that it did so otherwise may be told.
        assert report.nondeterminism == () or program in (two_drivers, a_driver_beside_a_call)
        assert report.replayed


def test_a_thread_that_posts_beside_nothing_awaited_has_an_order(tmp_path: Path) -> None:
    """Something that a thread puts into a loop while the program goes on, and awaits nothing, comes when it came."""

    async def program() -> list[str]:
        log: list[str] = []
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(log.append, "posted"))
        going_on = asyncio.create_task(asyncio.sleep(0))
        thread.start()
        thread.join(LIMIT)  # the loop has both before it goes on
        await going_on
        return [*log, await world.ask("done?")]

    world = World()
    world.goes_on.set()
    recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 1, world)


def test_a_thread_of_before_the_session_is_told(tmp_path: Path, older_thread: OlderThread) -> None:
    """What a thread that is older than the session puts into a loop beside a call has no recorded order."""
    world = World()

    async def program() -> list[str]:
        loop, posted, log = asyncio.get_running_loop(), asyncio.Event(), list[str]()

        def come() -> None:
            log.append("posted")
            world.goes_on.set()
            posted.set()

        async def beside() -> None:  # in a replay it is a call, too, that is not answered before the thread has come
            older_thread.begin(lambda: loop.call_soon_threadsafe(come))
            await posted.wait()
            log.append(await world.ask("and then"))

        await asyncio.gather(world.ask("who"), beside(), asyncio.to_thread(world.goes_on.wait, LIMIT))
        return log

    for mode in ("record", "replay"):
        world.goes_on.clear()
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            assert asyncio.run(program()) == ["posted", "and then!"]
        world.gone = True
    assert any("older than the session, went on beside it" in line for line in session.report.nondeterminism)


@pytest.mark.parametrize("way", ["executor", "thread"])
def test_threads_inside_of_a_call_deliver_nothing(tmp_path: Path, way: str) -> None:
    """What a client does in threads while it is asked, as to find a host, is no part of the order of the program."""

    def put(future: asyncio.Future[str], answer: str) -> None:
        future.get_loop().call_soon_threadsafe(future.set_result, answer)

    @boundary("chat")
    async def ask(question: str) -> str:
        loop = asyncio.get_running_loop()
        if way == "executor":
            return await loop.run_in_executor(None, str, question)
        future: asyncio.Future[str] = loop.create_future()
        threading.Thread(target=put, args=(future, question)).start()
        return await future

    async def program() -> list[str]:
        return [*await asyncio.gather(ask("a"), ask("b")), await ask("c")]

    assert recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 1) == ["a", "b", "c"]


def test_work_that_is_not_awaited_comes_before_the_session_ends(tmp_path: Path) -> None:
    """What a loop has begun in threads and left draws the recorded times and ids, though its session ends soon."""

    async def program(mode: str) -> list[tuple[int, uuid.UUID, datetime]]:
        out: list[tuple[int, uuid.UUID, datetime]] = []

        def draw(number: int) -> None:
            out.append((number, uuid.uuid4(), datetime.now(UTC)))

        async with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            for number in range(20):
                asyncio.get_running_loop().run_in_executor(None, draw, number)
        assert session.report.nondeterminism == ()
        return out

    recorded = asyncio.run(program("all"))
    assert len(recorded) == 20
    assert asyncio.run(program("none")) == recorded


@pytest.mark.parametrize("is_hidden", [False, True], ids=["in the queue", "in a function"])
def test_a_driver_of_the_program_delivers_nothing_for_a_call(tmp_path: Path, *, is_hidden: bool) -> None:
    """What the thread of an open database answers to a call that is recorded is no part of the order of the program."""

    @boundary("memory", drop={"driver"})
    async def ask(question: str, driver: Driver) -> str:
        return str(await driver.do(lambda: question, is_hidden=is_hidden))

    async def program() -> list[str]:
        with drivers(1) as (driver,):
            before = str(await driver.do(lambda: "before"))
            return [before, *await asyncio.gather(ask("a", driver), ask("b", driver)), await ask("c", driver)]

    assert recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 1) == ["before", "a", "b", "c"]


def test_a_call_in_a_thread_that_asks_its_loop_delivers_nothing_else(tmp_path: Path) -> None:
    """A plain call of a client that is a coroutine of the loop inside leaves no more in the order than its thread."""

    @boundary("memory", drop={"loop"})
    def ask(question: str, loop: asyncio.AbstractEventLoop) -> str:
        return asyncio.run_coroutine_threadsafe(echo(question), loop).result(LIMIT)

    async def asking(name: str) -> list[str]:
        loop = asyncio.get_running_loop()
        return [await asyncio.to_thread(ask, f"{name}{number}", loop) for number in range(3)]

    async def program() -> list[list[str]]:
        return await asyncio.gather(asking("a"), asking("b"))

    recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 1)


async def a_coroutine_of_a_thread() -> str:
    """Await a thread that waits for a coroutine of the loop."""
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(echo("who"), loop).result(LIMIT))


async def an_event_for_a_thread() -> str:
    """Await a thread that waits until a call beside it has been answered."""
    answered = threading.Event()

    async def asking() -> str:
        answer = await echo("who")
        answered.set()
        return answer

    return (await asyncio.gather(asyncio.to_thread(answered.wait, LIMIT), asking()))[1]


@boundary("call")
async def echo(question: str) -> str:
    """Answer."""
    await asyncio.sleep(0)
    return question


@pytest.mark.parametrize("program", [a_coroutine_of_a_thread, an_event_for_a_thread], ids=lambda one: one.__name__)
def test_without_a_recorded_order_nobody_waits_for_a_thread_that_waits(
    program: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    """In a replay of a cassette that knows no order, a call comes as soon as the thread beside it waits for it."""
    path = tmp_path / "c.jsonl"
    with use_cassette(path, mode="once"):
        asyncio.run(program())
    header, *records = path.read_text(encoding="utf-8").splitlines(keepends=True)
    older = json.loads(header)
    for known in ("schedule", "threads", "loose"):
        older["volatile"].pop(known, None)
    path.write_text("".join([json.dumps(older) + "\n", *records]), encoding="utf-8")
    with use_cassette(path) as session:
        assert asyncio.run(program()) == "who"
    assert session.report.nondeterminism == ()  # a thread for which the loop has waited in vain is told


def test_what_a_thread_puts_into_a_loop_comes_before_what_the_step_puts_there_that_waited_for_it(
    tmp_path: Path,
) -> None:
    """It is called first, as without a session."""

    async def program() -> list[str]:
        loop, order = asyncio.get_running_loop(), [await echo("first")]
        with ThreadPoolExecutor(1) as pool:
            pool.submit(loop.call_soon_threadsafe, order.append, "thread").result(LIMIT)
        loop.call_soon(order.append, "step")
        order.append(await echo("then"))
        return order

    found = recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 1)
    assert found == ["first", "thread", "step", "then"]


def test_generators_of_a_loop_in_a_thread(tmp_path: Path) -> None:
    """An async generator works in a loop that a thread runs, which has no context of the session."""

    async def answers() -> AsyncIterator[str]:
        for question in ("first", "then"):
            yield await echo(question)

    async def program() -> list[str]:
        return [answer async for answer in answers()]

    found = recorded_as_replayed(tmp_path / "c.yaml", lambda: in_thread(lambda: asyncio.run(program())), 1)
    assert found == ["first", "then"]


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
