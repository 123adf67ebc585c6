"""What a thread and the tasks of an event loop do to one object, without telling each other, is in an order."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from agenttape_core import Variation, boundary, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.scheduling import loop_seams
from agenttape_core.scheduling.clock import real_timer
from agenttape_core.scheduling.handles import owner_of
from agenttape_core.scheduling.threads import Waits

from ...kit.replaying import recorded_as_replayed
from ...kit.serving import Hello, serving
from .world import beside, in_threads

REPLAYS = 4
LIMIT = 30
"""Seconds after which a wait that another thread ends is an error."""


class World:
    """The outside, which answers after a time that is another one in each call; in a replay it is gone."""

    def __init__(self) -> None:
        self.gone = False
        self.draws = random.Random()
        self.ask = boundary("call", name="ask")(self._ask)
        self.aask = boundary("call", name="aask")(self._aask)

    def _ask(self, question: str) -> str:
        time.sleep(self._delay())
        return f"{question}!"

    async def _aask(self, question: str) -> str:
        await asyncio.sleep(self._delay())
        return f"{question}!"

    def _delay(self) -> float:
        assert not self.gone, "was reached"
        return self.draws.uniform(0, 0.008)


async def of_an_executor(world: World) -> Any:
    """Jobs of a small pool and tasks write to one list."""
    out: list[str] = []

    def work(name: str) -> None:
        out.append(world.ask(name))

    async def step(name: str) -> None:
        out.append(await world.aask(name))

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, work, name) for name in "abc"), *map(step, "xyz"))
    return out


async def beside_a_timer(world: World) -> Any:
    """Threads and a timer write to one list."""
    out: list[str] = []

    async def tick() -> None:
        for number in range(4):
            await asyncio.sleep(0.002)
            out.append(f"tick {number}")

    def work(name: str) -> None:
        out.append(world.ask(name))

    await asyncio.gather(tick(), *(asyncio.to_thread(work, name) for name in "ab"))
    return out


async def over_a_bridge(world: World) -> Any:
    """Threads have the loop ask, wait for its answer, and write to the list that its tasks write to."""
    loop, out = asyncio.get_running_loop(), list[str]()

    async def inner(name: str) -> str:
        out.append(answer := await world.aask(name))
        return answer

    def work(name: str) -> str:
        answer = asyncio.run_coroutine_threadsafe(inner(name), loop).result(LIMIT)
        out.append(f"thread {answer}")
        answered: str = world.ask(answer)
        return answered

    return await asyncio.gather(*(asyncio.to_thread(work, name) for name in "abc")), out


async def of_anyio(world: World) -> Any:
    """Threads of anyio have the loop write to the list that they write to."""
    out: list[Any] = []

    def work(name: str) -> str:
        out.append(answer := world.ask(name))
        anyio.from_thread.run_sync(out.append, f"loop {answer}")
        return str(answer)

    async def one(name: str) -> None:
        out.append(("end", await anyio.to_thread.run_sync(work, name)))

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(one, name)
    return out


async def of_anyio_alone(world: World) -> Any:
    """Threads of anyio do nothing but have the loop ask, and write to one list."""
    out: list[Any] = []

    def work(name: str) -> None:
        out.append(anyio.from_thread.run(world.aask, name))
        out.append(name)

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(anyio.to_thread.run_sync, work, name)
    return out


async def reading(world: World) -> Any:
    """A thread reads a number that a task counts up."""
    counted, out = {"so far": 0}, list[tuple[str, int]]()

    def work() -> None:
        out.extend((world.ask(f"thread {number}"), counted["so far"]) for number in range(3))

    async def count() -> None:
        for number in range(4):
            await world.aask(f"task {number}")
            counted["so far"] += 1

    await asyncio.gather(asyncio.to_thread(work), count())
    return out


async def of_a_bare_thread(world: World) -> Any:
    """A thread that nobody awaits writes to the list, and sets an event of the loop at the end."""
    loop, out, over = asyncio.get_running_loop(), list[str](), asyncio.Event()

    def work() -> None:
        out.extend(world.ask(f"thread {number}") for number in range(3))
        loop.call_soon_threadsafe(over.set)

    async def step() -> None:
        for number in range(3):
            out.append(await world.aask(f"task {number}"))

    with beside(work):
        await asyncio.gather(step(), asyncio.wait_for(over.wait(), LIMIT))
    return out


PROGRAMS = [of_an_executor, beside_a_timer, over_a_bridge, of_anyio, of_anyio_alone, reading, of_a_bare_thread]
Program = Callable[[World], Coroutine[Any, Any, Any]]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_a_thread_and_a_loop_do_to_one_object_comes_in_its_order(program: Program, tmp_path: Path) -> None:
    """A replay gives a loop the turn among threads when it had it in the recording, so each finds what it found."""
    world = World()
    recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program(world)), REPLAYS, world)


@pytest.mark.parametrize("order", ["1,2,3", "3,1,2", "2,3,1"])
def test_calls_that_threads_have_the_loop_make_come_in_a_chosen_order(order: str, tmp_path: Path) -> None:
    """A thread that waits for the loop works for nothing that could be chosen: the loop need not wait for it."""

    async def threads() -> list[str]:
        loop, out, world = asyncio.get_running_loop(), list[str](), World()

        def work(name: str) -> None:
            out.append(asyncio.run_coroutine_threadsafe(world.aask(name), loop).result(LIMIT))

        await asyncio.gather(*(asyncio.to_thread(work, name) for name in "123"))
        return out

    with use_cassette(tmp_path / "c.yaml", mode="once"):
        asyncio.run(threads())
    with use_cassette(tmp_path / "c.yaml", vary=Variation(order=order)) as session:
        assert asyncio.run(threads()) == [f"{name}!" for name in order.split(",")]
    assert session.report.nondeterminism == ()


def test_a_replay_says_that_the_loop_watches_a_file(tmp_path: Path) -> None:
    """When a file is ready is in no order; a function that the loop calls then may do anything to the program."""

    async def watching() -> None:
        loop, over, world = asyncio.get_running_loop(), asyncio.Event(), World()
        reads, writes = os.pipe()
        loop.add_reader(reads, lambda: (os.read(reads, 1), over.set()))
        os.write(writes, b"x")
        await world.aask("who?")
        await asyncio.wait_for(over.wait(), LIMIT)
        assert loop.remove_reader(reads)
        os.close(reads)
        os.close(writes)

    for mode in ("record", "replay"):
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            asyncio.run(watching())
    (told,) = session.report.nondeterminism
    assert told == "the event loop told the program that a file or a socket was ready, in no recorded order"


async def test_a_timer_of_ours_is_no_step_of_the_program(tmp_path: Path) -> None:
    """A program is held while a thread is late, but not the timer that ends this: a replay would wait for ever."""
    with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        timer = real_timer(asyncio.get_running_loop(), LIMIT, int)
        assert owner_of(timer, session) is None
        timer.cancel()


def test_calls_that_connect_as_they_begin(tmp_path: Path) -> None:
    """Calls that begin in one round of a loop, each with a connection, replay in order and report nothing."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Hello)) as server:

        @boundary
        async def fetch(number: int) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.server_port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return f"{number} {answer[-5:].decode()}"

        async def program() -> list[str]:
            return [await each for each in asyncio.as_completed([fetch(number) for number in range(4)])]

        recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program()), 1)


def test_reentrant_locks_of_calls(tmp_path: Path) -> None:
    """A thread that waits for a lock that code of a call took twice, and released once, is in no other order."""
    lock = threading.RLock()

    @boundary("call")
    def ask_long(question: str) -> str:
        with lock:
            with lock:
                pass
            time.sleep(0.03)
        return f"{question}!"

    @boundary("call")
    def ask_short(question: str) -> str:
        time.sleep(0.01)
        return f"{question}?"

    def program() -> list[str]:
        out: list[str] = []

        def one(name: str) -> None:
            if name == "a":
                out.append(ask_long(name))
                return
            out.append(ask_short(name))
            with lock:
                out.append(name)

        in_threads(one, "ab")
        return out

    recorded_as_replayed(tmp_path / "c.yaml", program, 1)


@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_locks_that_calls_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[], Any]) -> None:
    """A thread never waits in order for a lock that code of a call holds, not even one that it's about to release."""
    lock, is_releasing, is_wanted = kind(), threading.Event(), threading.Event()
    waited_for: list[int] = []
    attempts = 0
    real = Waits.wait

    def wait(self: Waits, one: Any, wait: Any) -> bool | None:
        waited_for.append(wait.key)
        return real(self, one, wait)

    def releases(_: FrameType, event: str, what: Any) -> None:
        if event == "c_call" and what.__name__ == "release" and what.__self__ is lock:
            is_releasing.set()
            is_wanted.wait(LIMIT)

    def wants(_: FrameType, event: str, what: Any) -> None:
        nonlocal attempts
        if event == "c_call" and what.__name__ == "acquire" and what.__self__ is lock:
            attempts += 1
            if attempts == 3:  # the first ones don't wait
                is_wanted.set()

    @boundary("call")
    def ask() -> None:
        with lock:
            sys.setprofile(releases)
        sys.setprofile(None)

    def program() -> None:
        with beside(ask):
            is_releasing.wait(LIMIT)
            sys.setprofile(wants)
            with lock:
                sys.setprofile(None)

    monkeypatch.setattr(Waits, "wait", wait)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        program()
    assert is_wanted.is_set()
    assert id(lock) not in waited_for


@pytest.mark.parametrize("givers", [1, 3])
@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_loop_of_a_thread_that_others_give_its_work(tmp_path: Path, kind: str, is_older: bool, givers: int) -> None:
    """A loop that runs in the background is in the order, whether its thread is older than the session or not."""
    world, begun = World(), list[tuple[Any, threading.Thread]]()

    def begin() -> None:
        loop = pytest.importorskip(kind).new_event_loop()
        begun.append((loop, threading.Thread(target=loop.run_forever, daemon=True)))
        begun[-1][1].start()

    async def ask(name: str, out: list[str]) -> None:
        out.append(await world.aask(name))

    def program() -> list[str]:
        out = list[str]()

        def give(giver: int) -> None:
            for names in ("ab", "c"):
                loop = begun[-1][0]
                wait([asyncio.run_coroutine_threadsafe(ask(f"{each}{giver}", out), loop) for each in names], LIMIT)

        if not is_older:
            begin()
        in_threads(give, range(1, givers))
        give(0)
        return out

    if is_older:
        begin()
    recorded_as_replayed(tmp_path / "c.yaml", program, REPLAYS)
    for loop, thread in begun:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_loop_that_runs_again(tmp_path: Path, kind: str) -> None:
    """A loop may run several times, and in another thread: whoever runs it has its turn, and goes on with it."""
    world = World()

    def program() -> list[str]:
        out, loop = list[str](), pytest.importorskip(kind).new_event_loop()

        async def ask(name: str) -> None:
            out.append(await world.aask(name))

        def run() -> None:
            for name in "abc":
                loop.run_until_complete(ask(name))

        with beside(run):
            out.append(world.ask("main"))
        loop.run_until_complete(ask("again"))
        loop.close()
        return out

    recorded_as_replayed(tmp_path / "c.yaml", program, REPLAYS)


def test_an_older_loop_ends_after_calls_that_overlap(tmp_path: Path) -> None:
    """Calls that overlap in a loop end in any order; its thread, which a recording waits for, can then end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ended = asyncio.Event()

    @boundary("call")
    async def until(is_first: bool) -> None:
        await (asyncio.sleep(0.01) if is_first else ended.wait())

    async def ask(is_first: bool) -> None:
        await until(is_first)
        ended.set()

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        wait([asyncio.run_coroutine_threadsafe(ask(is_first), loop) for is_first in (True, False)], LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
    assert not thread.is_alive()
    loop.close()


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_executors_of_calls(tmp_path: Path, kind: str) -> None:
    """The end of a loop's executor that only calls have used is in no order: a replay has no such executor."""
    run = pytest.importorskip(kind).run

    @boundary("call")
    async def ask(question: str) -> str:
        return await asyncio.to_thread(f"{question}!".upper)

    async def both(name: str) -> list[str]:
        return list(await asyncio.gather(ask(f"{name}1"), ask(f"{name}2")))

    def program() -> list[list[str]]:
        first = run(both("a"))
        with ThreadPoolExecutor(2) as pool:
            others = list(pool.map(lambda name: run(both(name)), "bc"))
        return [first, *others, run(both("d"))]

    recorded_as_replayed(tmp_path / "c.yaml", program, 1)


IMPORTS_UVLOOP = """
import asyncio, sys
from agenttape_core import boundary, use_cassette

@boundary("call")
async def ask(question):
    await asyncio.sleep(0)
    return f"{question}!"

async def program():
    answers = await asyncio.gather(ask("a"), asyncio.to_thread(len, "thread"), ask("b"))
    return answers, type(asyncio.get_running_loop()).__module__

with use_cassette("c", mode=sys.argv[1]) as session:
    import uvloop
    assert uvloop.run(program()) == (["a!", 6, "b!"], "uvloop")
assert session.report.nondeterminism == ()
"""


@pytest.mark.process
def test_uvloop_imported_in_a_session(tmp_path: Path) -> None:
    """A program that imports uvloop while its session is open, as one that a command runs, has an order, too."""
    pytest.importorskip("uvloop")
    for mode in ("record", "replay"):
        command = [sys.executable, "-W", "error", "-c", IMPORTS_UVLOOP, mode]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=LIMIT)


def test_left_work_in_executors_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that ends waits for the thread of a call that was given up, and runs what that thread needs of it."""
    monkeypatch.setattr(loop_seams, "_ENDS", 0.01)
    has_begun, may_end, has_ended = asyncio.Event(), threading.Event(), threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            may_end.set()
            super().shutdown(wait, cancel_futures=cancel_futures)

    def work(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait(LIMIT)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(LIMIT)
        has_ended.set()

    @boundary("call")
    async def ask() -> None:
        await asyncio.to_thread(work, asyncio.get_running_loop())

    async def program() -> None:
        asyncio.get_running_loop().set_default_executor(Pool())
        task = asyncio.create_task(ask())
        await has_begun.wait()
        task.cancel()

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        asyncio.run(program())
        assert has_ended.is_set()


async def fails_beside(question: Coroutine[Any, Any, str]) -> None:
    """Ask beside a task that fails as soon as that has failed, as the parts of a server do."""

    async def fail() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("no answer")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fail)
        await question


@pytest.mark.parametrize("ask", [lambda question: question, fails_beside])
def test_portal_outlives_a_miss(ask: Any, tmp_path: Path) -> None:
    """A portal that tests share, as a `TestClient`, runs the calls of the others after one of them has missed."""
    world = World()
    with anyio.from_thread.start_blocking_portal() as portal:
        with use_cassette(tmp_path / "c.yaml", mode="all"):
            assert portal.call(world.aask, "a") == "a!"
        for _ in range(2):
            with use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
                assert portal.call(world.aask, "a") == "a!"
            with pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
                portal.call(lambda: ask(world.aask("b")))
