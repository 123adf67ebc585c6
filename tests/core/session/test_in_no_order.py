"""What no recording can keep in order, or fix, is named by each replay in which it happens, and only there."""

from __future__ import annotations

import asyncio
import io
import logging
import logging.handlers
import multiprocessing
import os
import random
import secrets
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from signal import getsignal
from typing import Any

import pytest
from tests.kit.installed import install

from agenttape_core import boundary, use_cassette
from agenttape_core.results import Verification
from agenttape_core.scheduling import threads

from ...kit.replaying import recorded_as_replayed
from .world import beside

LIMIT = 30
SIGNALLED = "a signal came to a handler of the program, at a moment that is in no recorded order"
WENT_ON = "threads of the program, older than the session, went on beside it, in no recorded order"
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


@boundary("call")
def ask(question: str) -> str:
    """Answer."""
    return f"{question}!"


def disorder(path: Path, recorded: Callable[[], object], replayed: Callable[[], object]) -> tuple[str, ...]:
    """Return what a replay says that does one thing, where the recording did another."""
    with use_cassette(path, mode="all"):
        ask("who?")
        recorded()
    with use_cassette(path) as session:
        ask("who?")
        replayed()
    return session.report.nondeterminism


def nothing() -> None:
    """Do nothing."""


# -- signals ---------------------------------------------------------------------------------------------------------


def handle(*_: object) -> None:
    """Handle a signal."""


@contextmanager
def handled(handler: Any) -> Iterator[None]:
    """Handle a signal while inside."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        assert signal.signal(signal.SIGUSR1, before) is handler


def signalled() -> None:
    """Get a signal."""
    signal.raise_signal(signal.SIGUSR1)


@needs_signals
@pytest.mark.parametrize(
    ("recorded", "replayed", "told"),
    [
        (nothing, nothing, ()),
        (signalled, nothing, (SIGNALLED,)),
        (nothing, signalled, (SIGNALLED,)),
        (signalled, signalled, (SIGNALLED,)),
    ],
)
def test_a_signal_to_a_handler_of_the_program(
    recorded: Callable[[], object], replayed: Callable[[], object], told: tuple[str, ...], tmp_path: Path
) -> None:
    """It comes between any two steps; one that came only then is missing in the replay, which says so."""
    with handled(handle):
        assert disorder(tmp_path / "c.yaml", recorded, replayed) == told


@needs_signals
def test_a_handler_that_is_set_in_a_session(tmp_path: Path) -> None:
    """It is the program's own to whoever asks for it, by whatever reference, in the session and afterwards."""
    seen: list[Any] = []

    def set_it() -> None:
        assert getsignal(signal.SIGUSR1) is before
        with handled(seen.append):
            assert getsignal(signal.SIGUSR1) == seen.append
        with handled(handle):
            assert getsignal(signal.SIGUSR1) is handle
            signalled()

    before = getsignal(signal.SIGUSR1)
    assert disorder(tmp_path / "c.yaml", nothing, set_it) == (SIGNALLED,)
    with handled(handle):
        with use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
            assert getsignal(signal.SIGUSR1) is handle
        assert getsignal(signal.SIGUSR1) is handle


@needs_signals
async def test_a_signal_to_an_event_loop(tmp_path: Path) -> None:
    """A loop calls what the program has given it for a signal, and a replay names that, too."""
    loop = asyncio.get_running_loop()
    for mode in ("once", "none"):
        async with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            came = asyncio.Event()
            loop.add_signal_handler(signal.SIGUSR1, lambda came=came: came.set())
            ask("who?")
            signalled()
            await asyncio.wait_for(came.wait(), LIMIT)
            loop.remove_signal_handler(signal.SIGUSR1)
    assert session.report.nondeterminism == (SIGNALLED,)


# -- threads that are older ------------------------------------------------------------------------------------------


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds that nobody tells."""
    while not holds():
        time.sleep(0.0005)


class Older:
    """A thread of the program that does something whenever it is told to."""

    def __init__(self) -> None:
        self._told, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name="older")
        self._thread.start()
        self._waits()

    def _waits(self) -> None:
        """Wait until it waits itself: one that is about to has still something to do."""
        until(lambda: self._told._cond._waiters)  # type: ignore[attr-defined]

    def _work(self) -> None:
        while self._told.acquire(timeout=LIMIT) and not self._is_over:
            self._done.release()

    def goes_on(self) -> None:
        """Let it do something, and wait until it has."""
        self._told.release()
        assert self._done.acquire(timeout=LIMIT)
        self._waits()

    def ends(self) -> None:
        """Let it end."""
        self._is_over = True
        self._told.release()
        self._thread.join(LIMIT)


@pytest.fixture
def older() -> Iterator[Older]:
    """A thread that is older than the sessions of a test."""
    made = Older()
    yield made
    made.ends()


def test_a_thread_that_is_older_and_goes_on(older: Older, tmp_path: Path) -> None:
    """It takes no turns, so what it does is in no order; one that went on only then is named, too."""
    named = "older, older than the session, went on beside it, in no recorded order"
    assert disorder(tmp_path / "a.yaml", nothing, nothing) == ()
    assert disorder(tmp_path / "b.yaml", older.goes_on, nothing) == (WENT_ON,)
    assert disorder(tmp_path / "c.yaml", nothing, older.goes_on) == (named,)
    assert disorder(tmp_path / "d.yaml", nothing, older.ends) == (named,)


def test_threads_of_libraries_are_not_named(tmp_path: Path) -> None:
    """A server that waits for others, and serves them, is in one call of a library all the time."""
    over, began = threading.Event(), threading.Event()
    timer = threading.Timer(LIMIT, nothing)  # waits in the standard library
    waiting = threading.Thread(target=lambda: (began.set(), over.wait(LIMIT)))
    timer.start()
    waiting.start()
    assert began.wait(LIMIT)
    until(lambda: over._cond._waiters and timer.finished._cond._waiters)  # type: ignore[attr-defined]
    assert disorder(tmp_path / "c.yaml", nothing, nothing) == ()
    timer.cancel()
    over.set()
    waiting.join(LIMIT)


# -- what stays real -------------------------------------------------------------------------------------------------

NOISE = "what `secrets`, `os.urandom` and `random.SystemRandom` give the program is real"
SPANS = "what `time.monotonic`, `perf_counter` and their like tell the program is real"
GENERATOR = random.SystemRandom()


@pytest.mark.parametrize(
    ("draw", "told"),
    [
        (secrets.token_hex, NOISE),
        (lambda: os.urandom(4), NOISE),
        (GENERATOR.random, NOISE),
        (lambda: [time.monotonic()], SPANS),
        (lambda: [time.perf_counter_ns()], SPANS),
        (lambda: [time.thread_time()], SPANS),
    ],
)
def test_what_is_real_on_purpose_is_named_where_the_program_draws_it(
    draw: Callable[[], object], told: str, tmp_path: Path
) -> None:
    """It is another one in each replay."""
    assert disorder(tmp_path / "c.yaml", draw, draw) == (told,)


@needs_signals
def test_what_is_real_is_told_apart_from_the_order(tmp_path: Path) -> None:
    """A verification has a line for each, and lists for both; what is real is part of the disorder, too."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        ask("who?")
    with use_cassette(path) as session:
        ask("who?")
        secrets.token_hex()
        with handled(handle):
            signalled()
    report = session.report
    assert (report.nondeterminism, report.entropy, report.lost_order) == ((SIGNALLED, NOISE), (NOISE,), (SIGNALLED,))
    found = Verification("f", [], [], "failed", {}, nondeterminism=report.nondeterminism, entropy=report.entropy)
    told = [
        f"  the recorded order could not be imposed: {SIGNALLED}",
        f"  not replayed (real clock or random numbers): {NOISE}",
    ]
    assert [line for line in str(found).splitlines() if line in told] == told
    assert (found.to_dict()["nondeterminism"], found.to_dict()["entropy"]) == ([SIGNALLED, NOISE], [NOISE])


def test_what_libraries_draw_is_not_named(tmp_path: Path) -> None:
    """Event loops and locks read clocks all the time; ids and numbers that are fixed come from no noise."""

    def draw() -> None:
        asyncio.run(asyncio.sleep(0.001))
        threading.Event().wait(0.001)
        uuid.uuid4()
        random.Random().random()

    assert disorder(tmp_path / "c.yaml", draw, draw) == ()
    assert repr(os.urandom).startswith("<built-in")


def test_a_call_draws_for_itself(tmp_path: Path) -> None:
    """What the code of a boundary draws is part of its answer."""

    @boundary("tool")
    def token() -> str:
        return f"{secrets.token_hex()} {time.monotonic()}"

    assert disorder(tmp_path / "c.yaml", token, token) == ()


@pytest.mark.slow
def test_a_thread_that_computes_for_long_is_no_disorder(tmp_path: Path) -> None:
    """A replay in which calls are in the recorded order reports nothing, however long a thread has computed."""

    def program() -> list[str]:
        made: list[str] = []
        with beside(lambda: made.append(ask("thread"))):
            for _ in range(2 * 10**7):  # most of a second of the processor, and no clock that a replay would report
                pass
            made.append(ask("main"))
        return made

    recorded_as_replayed(tmp_path / "c.yaml", program, 1)


# -- threads that still compute when the session ends ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("longest", "is_kept"), [(LIMIT, True), (0.05, False)], ids=["waited for", "named"])
def test_a_thread_that_computes_when_the_session_ends(
    longest: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    """The end of the session waits while it computes, so that it draws what it drew; one that takes long is named."""
    monkeypatch.setattr(threads, "_SETTLES", 0.05)
    monkeypatch.setattr(threads, "_COMPUTES", longest)

    async def program(mode: str) -> tuple[float, tuple[str, ...]]:
        def compute() -> float:
            for _ in range(10_000_000):
                pass
            return random.random()

        async with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            ask("who?")
            work = asyncio.get_running_loop().run_in_executor(None, compute)
        return await work, session.report.nondeterminism

    recorded, _ = asyncio.run(program("once"))
    replayed, named = asyncio.run(program("none"))
    assert (replayed == recorded) is is_kept
    assert (named == ()) is is_kept
    assert all("went on without its turn" in line for line in named)


LIBRARY = """
import threading


class Refreshing(threading.Thread):
    def __init__(self, render):
        super().__init__(daemon=True)
        self.done, self.render = threading.Event(), render

    def run(self):
        while not self.done.wait(0.001):
            self.render()

    def stop(self):
        self.done.set()
        self.join()


class Listening(threading.Thread):
    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection = connection

    def run(self):
        while self.connection.recv(1):
            pass
"""


@pytest.fixture
def library(tmp_path: Path) -> Any:
    """Return an installed module with threads of its own, as those of a progress bar and of a debugger."""
    return install(tmp_path, "beside-the-program", "beside_the_program", LIBRARY)


@contextmanager
def progress(library: Any) -> Iterator[None]:
    """Redraw a line again and again, as `rich.progress` does."""
    screen = io.StringIO()
    thread = library.Refreshing(lambda: screen.write("."))
    thread.start()
    try:
        yield
    finally:
        thread.stop()


@contextmanager
def log_of_processes(_: Any) -> Iterator[None]:
    """Write the log in a thread that reads a queue of processes."""
    queue: Any = multiprocessing.Queue()
    log, handler = logging.getLogger("beside"), logging.handlers.QueueHandler(queue)
    listener = logging.handlers.QueueListener(queue, logging.StreamHandler(io.StringIO()))
    log.addHandler(handler)
    listener.start()
    try:
        log.warning("begins")
        yield
        log.warning("ends")
    finally:
        listener.stop()
        log.removeHandler(handler)
        queue.close()
        queue.join_thread()


@contextmanager
def debugger(library: Any) -> Iterator[None]:
    """Wait for an editor at the other end of a connection."""
    here, there = socket.socketpair()
    thread = library.Listening(here)
    thread.start()
    try:
        yield
    finally:
        there.close()
        thread.join()
        here.close()


@contextmanager
def tracing(_: Any) -> Iterator[None]:
    """Trace each thread, as a measurement of coverage does."""
    before = threading.gettrace()
    threading.settrace(lambda *_: None)
    try:
        yield
    finally:
        threading.settrace(before)  # type: ignore[arg-type] # it takes what it gave


@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("beside", [progress, log_of_processes, debugger, tracing])
def test_nothing_is_reported(
    library: Any, project: Path, beside: Callable[[Any], AbstractContextManager[None]], is_older: bool
) -> None:
    """A replay that is equal reports nothing of a thread that only draws, writes the log, debugs or measures."""

    @boundary
    def look_up(word: str) -> str:
        return f"{word}?"

    @boundary
    def ask(question: str) -> str:
        return f"{question}!"

    def program() -> list[str]:
        """Look up words in threads whose order is in the next request, twice."""
        found: list[str] = []
        with nullcontext() if is_older else beside(library):
            for turn in range(2):
                with ThreadPoolExecutor() as pool:
                    list(pool.map(lambda word: found.append(look_up(word)), [f"a{turn}", f"b{turn}", f"c{turn}"]))
                found.append(ask(str(found)))
        return found

    with beside(library) if is_older else nullcontext():
        recorded_as_replayed(project / "c.yaml", program)
