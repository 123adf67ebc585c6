"""Waits that time out, and loops that only read the clock, let it pass; waits of a back-off are skipped on demand."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.freeze import Frozen, backoff, clock, freezing, register_backoff, sleeping, timed_waits

from .conftest import OpenSession, in_other_thread

if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from pathlib import Path

SHORT = 0.002
LONGER = 0.02
"""For waits that compute what is left of their timeout, which the machine may take some of."""
LONGEST = 0.2
"""For those that know nothing but the moment at which they are due: the machine may take a twentieth."""


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _join() -> bool:
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    thread.join(SHORT)
    is_alive = thread.is_alive()
    go.set()
    thread.join()
    return not is_alive


def _held() -> bool:
    lock = threading.RLock()
    free = threading.Event()
    held = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            free.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    got = lock.acquire(timeout=SHORT)
    free.set()
    thread.join()
    return got


def _condition() -> bool:
    condition = threading.Condition()
    with condition:
        return condition.wait(SHORT)


def _got(waiting: Any) -> bool:
    try:
        waiting.get(timeout=LONGER)
    except queue.Empty:
        return False
    return True


def _result() -> bool:
    try:
        concurrent.futures.Future[None]().result(SHORT)
    except TimeoutError:
        return False
    return True


async def _timeout() -> None:
    async with asyncio.timeout(SHORT):
        await asyncio.Event().wait()


async def _waited() -> bool:
    done, _ = await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=SHORT)
    return bool(done)


async def _timer() -> None:
    fired = asyncio.Event()
    asyncio.get_running_loop().call_later(SHORT, fired.set)
    await fired.wait()


async def _move_on() -> None:
    with anyio.move_on_after(LONGEST):
        await anyio.sleep_forever()


WAITS: dict[str, Callable[[], Any]] = {
    "Event.wait": lambda: threading.Event().wait(SHORT),
    "Condition.wait": _condition,
    "Queue.get": lambda: _got(queue.Queue()),
    "SimpleQueue.get": lambda: _got(queue.SimpleQueue()),
    "Lock.acquire": lambda: _taken().acquire(timeout=SHORT),
    "RLock.acquire": _held,
    "Semaphore.acquire": lambda: threading.Semaphore(0).acquire(timeout=LONGER),
    "Thread.join": _join,
    "Future.result": _result,
    "futures.wait": lambda: concurrent.futures.wait([concurrent.futures.Future()], SHORT).done,
    "select": lambda: any(select.select([], [], [], SHORT)),
}
AWAITED: dict[str, Callable[[], Any]] = {
    "asyncio.wait_for": lambda: asyncio.wait_for(asyncio.Event().wait(), SHORT),
    "asyncio.timeout": _timeout,
    "asyncio.wait": _waited,
    "call_later": _timer,
    "anyio": _move_on,
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_of_a_thread_that_times_out_passes_time(session: OpenSession, wait: Callable[[], Any]) -> None:
    """By as much as a sleep of as long, once, and by the same in every run."""
    rounds = []
    for _ in range(2):
        with session() as frozen:
            assert not wait()
            time.sleep(0)
            rounds.append(frozen.passed)
    assert rounds in ([pytest.approx(seconds + 0.0001)] * 2 for seconds in (SHORT, LONGER))


@pytest.mark.parametrize("wait", AWAITED.values(), ids=AWAITED)
def test_a_wait_of_a_task_that_times_out_passes_time(session: OpenSession, wait: Callable[[], Any]) -> None:
    """Timers of the event loop, in whatever way they are set, and by the same in every run."""

    async def run() -> float:
        with session() as frozen:
            with contextlib.suppress(TimeoutError):
                assert not await wait()
            return frozen.passed

    rounds = [asyncio.run(run()) for _ in range(2)]
    assert rounds in ([pytest.approx(seconds + 0.0001)] * 2 for seconds in (SHORT, LONGER, LONGEST))


def test_a_wait_that_is_woken_takes_no_time(session: OpenSession) -> None:
    """What comes before the timeout comes at the same frozen moment; so does what does not wait at all."""

    async def tasks() -> None:
        async with asyncio.timeout(60):
            await asyncio.wait_for(asyncio.sleep(0), 60)

    with session() as frozen:
        event, items = threading.Event(), queue.SimpleQueue[int]()
        event.set()
        items.put(1)
        assert (event.wait(60), items.get(timeout=60), threading.Lock().acquire(timeout=60)) == (True, 1, True)
        assert not threading.Lock().acquire(False) or True
        left, right = socket.socketpair()
        with left, right:
            left.send(b"x")
            assert select.select([right], [], [], 60)[0] == [right]
            assert select.select([], [right], [], None)[1] == [right]
        asyncio.run(tasks())
        assert frozen.passed == 0


def test_waits_side_by_side_take_as_long_as_the_longest(session: OpenSession) -> None:
    """Branches that sleep at once do not add up, in tasks and in threads."""

    async def tasks() -> None:
        await asyncio.gather(asyncio.sleep(0.003), asyncio.sleep(0.006), asyncio.sleep(0.004))

    with session() as frozen:
        asyncio.run(tasks())
        assert frozen.passed == pytest.approx(0.0061)
        barrier = threading.Barrier(2)

        def sleep() -> None:
            barrier.wait()
            time.sleep(0.02)

        threads = [threading.Thread(target=contextvars.copy_context().run, args=(sleep,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert frozen.passed == pytest.approx(0.0262)


@pytest.mark.parametrize("wait", ["thread", "task", "join"])
def test_waits_of_installed_packages_take_no_time(session: OpenSession, wait: str) -> None:
    """How often they look for news from their threads depends on the machine; a program's own code waits on purpose."""
    source = """
import asyncio, threading
def thread(): threading.Event().wait(0.002)
async def sleeping(): await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.002)
def task(): asyncio.run(sleeping())
def join(): never.join(0.002)
"""
    forever = threading.Event()
    thread = threading.Thread(target=forever.wait)
    thread.start()
    waits: dict[str, Any] = {}
    for file in ("/x/lib/python3/site-packages/package/polling.py", "/x/program.py"):
        names: dict[str, Any] = {"__name__": "made_up", "never": thread}
        exec(compile(source, file, "exec"), names)
        waits[file] = names[wait]
    passed = []
    for own in waits.values():
        with session() as frozen:
            own()
            passed.append(frozen.passed)
    forever.set()
    thread.join()
    assert passed == [0, pytest.approx(0.0021)]


def test_loops_with_a_deadline_end(session: OpenSession) -> None:
    """With waits of threads and of tasks, after as many rounds as the deadline has of them."""

    async def tasks() -> int:
        rounds, deadline = 0, time.time() + 0.01
        while time.time() < deadline:
            try:
                await asyncio.wait_for(asyncio.Event().wait(), 0.002)
            except TimeoutError:
                rounds += 1
        return rounds

    with session():
        rounds, deadline = 0, time.time() + 0.01
        while time.time() < deadline:
            assert not threading.Event().wait(0.002)
            rounds += 1
        assert rounds == asyncio.run(tasks()) == 5


def test_other_threads_and_other_clocks_are_left_alone(session: OpenSession) -> None:
    """A thread of nobody's, a session without a frozen clock and one that ticks wait as ever."""
    for kinds in (["clock"], ["uuid"], ["clock:ticking"]):
        with session(kinds=kinds) as frozen:
            if kinds == ["clock"]:
                in_other_thread(threading.Event().wait, SHORT)
            else:
                threading.Event().wait(SHORT)
            assert frozen.clock < 1_700_000_060 or kinds == ["uuid"]
            assert frozen.passed == (0 if kinds != ["clock:ticking"] else pytest.approx(SHORT + 0.0001))


def test_nothing_stays_behind(session: OpenSession) -> None:
    """The methods and functions are the real ones again, and wrong arguments are refused as ever."""
    lock = threading.Lock()
    functions = [threading.Thread.join, asyncio.BaseEventLoop.call_at, asyncio.BaseEventLoop.call_later]
    before = [type(lock).__dict__["acquire"], queue.SimpleQueue.__dict__["get"], *(f.__code__ for f in functions)]
    with session():
        assert type(lock).__dict__["acquire"] is not before[0]
        wrong: Any = "1"
        with pytest.raises(TypeError):
            lock.acquire(timeout=wrong)
        with pytest.raises(ValueError, match="timeout value must be"):
            lock.acquire(timeout=-2)
        with pytest.raises(ValueError, match="non-blocking"):
            lock.acquire(False, 1)
        with pytest.raises(ValueError, match="non-negative"):
            queue.SimpleQueue[int]().get(timeout=-1)
        assert lock.acquire(blocking=False)
        assert not lock.acquire(blocking=False)
    after = [type(lock).__dict__["acquire"], queue.SimpleQueue.__dict__["get"], *(f.__code__ for f in functions)]
    assert after == before


@pytest.mark.process
def test_a_process_that_is_not_ready_passes_time(session: OpenSession) -> None:
    """By the timeout, and not by as much as the standard library sleeps between two looks at the process."""
    long = [sys.executable, "-c", "import time; time.sleep(60)"]
    with session() as frozen, subprocess.Popen(long, stdout=subprocess.PIPE) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.02)
        assert frozen.passed == pytest.approx(0.0201)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.02)
        assert frozen.passed == pytest.approx(0.0402)
        process.kill()
        assert process.wait(60) != 0
        assert frozen.passed == pytest.approx(0.0402)


@pytest.mark.parametrize("form", ["time", "datetime", "helper"])
def test_a_loop_that_only_reads_the_clock_ends(
    session: OpenSession, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """It waits in real time, and ends at the same frozen moment in every run."""
    from datetime import datetime

    monkeypatch.setattr("agenttape_core.freeze.frozen.PATIENCE", 50)
    read: Callable[[], float] = {
        "time": lambda: time.time(),  # noqa: PLW0108 - what was taken before the session is real
        "datetime": lambda: datetime.now().timestamp(),  # noqa: DTZ005
        "helper": lambda: min(time.time(), float("inf")),
    }[form]
    ends = []
    for _ in range(2):
        with session() as frozen:
            began = time.monotonic()
            deadline = time.time() + 0.025
            while read() < deadline:
                pass
            ends.append(frozen.passed)
            assert time.monotonic() - began > 0.02
    assert ends == [pytest.approx(0.03)] * 2


def test_readings_at_many_places_are_no_loop(session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one line that reads again and again waits; a sleep or a call in between begins the count anew."""
    monkeypatch.setattr("agenttape_core.freeze.frozen.PATIENCE", 10)
    with session() as frozen:
        for n in range(40):
            time.time()
            if n % 8 == 0:
                frozen.calls += 1
        before = frozen.passed
        for _ in range(5):
            time.time(), time.time(), time.time()
        assert before == frozen.passed == 0


begun, go = threading.Event(), threading.Event()


def test_waiting_for_a_call_takes_no_frozen_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the program looks whether it has ended: the call takes none, and a replay is faster."""

    @boundary("tool")
    def lookup() -> str:
        """A service that answers when it is let."""
        begun.set()
        go.wait()
        return "found"

    monkeypatch.chdir(tmp_path)
    with use_cassette("c", mode="once"), concurrent.futures.ThreadPoolExecutor() as pool:
        before = time.time()
        call = pool.submit(contextvars.copy_context().run, lookup)
        begun.wait()
        for _ in range(3):
            assert not concurrent.futures.wait([call], 0.002).done
        assert time.time() == before
        go.set()
        assert call.result() == "found"
        threading.Event().wait(0.002)
        assert time.time() > before


def test_a_call_that_is_over_before_the_wait_counts_too(session: OpenSession) -> None:
    """As one that is replayed: it takes less time than the program waits before it looks again."""
    with session() as frozen:
        for calls, passed in ((1, 0), (0, 1.0001)):
            wait = timed_waits.wait_of(1.0)
            assert wait is not None
            for _ in range(calls):
                frozen.calls += 1
            wait.timed_out()
            assert frozen.passed == passed


def test_the_code_of_a_tool_waits_for_its_own_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that is executed around a wait is not one that the wait is for."""

    @boundary("tool")
    def patient() -> float:
        """A tool that waits for its own clock."""
        began = time.time()
        while time.time() < began + 0.01:
            threading.Event().wait(0.002)
        return round(time.time() - began, 4)

    monkeypatch.chdir(tmp_path)
    with use_cassette("c", mode="once"):
        before = time.time()
        assert patient() >= 0.01
        assert time.time() == before


SOURCE = """
import asyncio, time
from time import sleep

def retry(): time.sleep(30)
def retry_by_name(): sleep(30)
async def aretry(): await asyncio.sleep(30)
def watch(): time.sleep(30)
async def awatch(): await asyncio.sleep(30)
def outer(call): call()
"""


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would really be slept."""
    slept: list[float] = []

    async def asleep(seconds: float, result: Any = None) -> Any:
        slept.append(seconds)
        return result

    (stand_in,) = (stand_in for stand_in in clock.STAND_INS if stand_in.__wrapped__ is time.sleep)
    monkeypatch.setattr(stand_in, "__wrapped__", slept.append)
    monkeypatch.setattr(sleeping, "_REAL", asleep)
    return slept


@pytest.fixture
def framework(
    loaded_module: Callable[[str, str], types.ModuleType], monkeypatch: pytest.MonkeyPatch
) -> types.ModuleType:
    """A module with retries that are named, and with other sleeps."""
    monkeypatch.setattr(backoff, "_places", {})
    register_backoff("some_framework", ["retry", "retry_by_name", "aretry", "outer"])
    return loaded_module("some_framework", SOURCE)


@pytest.mark.parametrize("kinds", [("clock",), ()])
async def test_named_functions(framework: Any, slept: list[float], kinds: tuple[str, ...]) -> None:
    """Only the sleeps of named functions are skipped, however they reach the function; the clock passes for all."""
    frozen = Frozen(kinds=kinds, seed="s", clock=0.0, scope=str, skips_backoff=True)
    with freezing(lambda: frozen, kinds):
        framework.retry()
        framework.retry_by_name()
        await framework.aretry()
        assert [seconds for seconds in slept if seconds] == []
        assert frozen.clock == pytest.approx(90, abs=0.01)
        framework.watch()
        await framework.awatch()
        framework.outer(lambda: time.sleep(8))
    assert [seconds for seconds in slept if seconds] == [30, 30, 8]
    assert frozen.clock == pytest.approx(158, abs=0.01)


async def test_only_where_a_session_does(framework: Any, slept: list[float]) -> None:
    """A session that does not skip back-off sleeps, and so does who belongs to none."""
    frozen = Frozen(kinds=["clock"], seed="s", clock=0.0, scope=str)
    for session in (frozen, None):
        with freezing(lambda session=session: session, ["clock"]):  # type: ignore[misc]
            framework.retry()
            await framework.aretry()
    assert slept == [30] * 4
