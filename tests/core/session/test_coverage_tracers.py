"""Sessions measured by coverage or other tools, whose tracers take locks at any line."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from coverage.collector import Collector

from agenttape_core import boundary, use_cassette

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@boundary("tool")
def ask(question: str) -> str:
    """Answer."""
    return question


def test_a_tracer_takes_its_lock_without_our_code(tmp_path: Path) -> None:
    """A thread that starts in a session is traced with the real methods of coverage's lock, and takes no turn at it."""
    measured = Coverage(data_file=None, include=["*"], concurrency="thread")
    measured.start()
    try:
        for mode in ("record", "replay"):
            with use_cassette(tmp_path / "c.yaml", mode=mode), ThreadPoolExecutor(2) as pool:
                assert list(pool.map(ask, "abcd")) == list("abcd")
                lock = Collector._collectors[-1].data_lock
                assert lock is not None
                assert not isinstance(lock.acquire, types.MethodType)
                assert not isinstance(lock.release, types.MethodType)
    finally:
        measured.stop()


class Child:
    """A forked child that does something and exits.

    Args:
        work: What it does.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._ended, end = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            code = 1
            try:
                work()
                code = 0
            finally:
                os._exit(code)
        os.close(end)

    def status(self) -> int:
        """Return its exit code; the number of the signal, below zero, if it hung and was killed."""
        if not select.select([self._ended], [], [], 20)[0]:
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._ended)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def status_of_child(path: Path, work: Callable[[], object]) -> int:
    """Return the exit code of a child that is forked inside a session whose threads take turns."""
    with use_cassette(path, mode="record"), ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, "abcd")) == list("abcd")
        child = Child(work)
    return child.status()


def by_block(lock: threading.Lock, start: Callable[[], object]) -> None:
    """Start a tracer inside of the block of its lock."""
    with lock:
        start()


def by_calls(lock: threading.Lock, start: Callable[[], object]) -> None:
    """Start a tracer between the calls that take and release its lock."""
    lock.acquire()
    start()
    lock.release()


def monitor(start_with: Callable[[threading.Lock, Callable[[], object]], None]) -> None:
    """Start a callback for functions that start, which takes the lock under which it was started."""
    lock = threading.Lock()
    monitoring: Any = vars(sys)["monitoring"]
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)

    def starts(*_: object) -> None:
        with lock:
            """Nothing else may be inside."""

    monitoring.use_tool_id(tool, "tool")
    monitoring.register_callback(tool, monitoring.events.PY_START, starts)
    start_with(lock, lambda: monitoring.set_events(tool, monitoring.events.PY_START))
    monitoring.set_events(tool, 0)


def trace(start_with: Callable[[threading.Lock, Callable[[], object]], None]) -> None:
    """Start a function that traces calls, which takes the lock under which it was started."""
    lock = threading.Lock()

    def called(*_: object) -> None:
        with lock:
            """Nothing else may be inside."""

    start_with(lock, lambda: sys.settrace(called))
    sys.settrace(None)


def measure() -> None:
    """Start and stop what coverage measures by `sys.monitoring`."""
    measured = Coverage(data_file=None, include=["*"], concurrency="thread")
    measured.set_option("run:core", "sysmon")
    measured.start()
    by_block(threading.Lock(), bool)
    measured.stop()


monitored = pytest.mark.skipif(sys.version_info < (3, 12), reason="needs sys.monitoring")


@pytest.mark.parametrize("start_with", [by_block, by_calls])
@pytest.mark.parametrize("tracer", [pytest.param(monitor, marks=monitored), trace])
def test_a_tracer_starts_in_a_forked_child(
    tracer: Callable[[Any], None], start_with: Callable[[threading.Lock, Callable[[], object]], None], tmp_path: Path
) -> None:
    """A child that is forked in a session doesn't wait for the lock of its tracer."""
    assert status_of_child(tmp_path / "c.yaml", lambda: tracer(start_with)) == 0


@monitored
def test_coverage_starts_in_a_forked_child(tmp_path: Path) -> None:
    """A child that is forked in a session may be measured by `sys.monitoring`."""
    assert status_of_child(tmp_path / "c.yaml", measure) == 0


@monitored
def test_coverage_starts_in_a_session(tmp_path: Path) -> None:
    """Coverage may start to measure by `sys.monitoring` within a session."""

    def work() -> None:
        with use_cassette(tmp_path / "c.yaml", mode="record"), ThreadPoolExecutor(2) as pool:
            assert list(pool.map(ask, "abcd")) == list("abcd")
            measure()

    assert Child(work).status() == 0


def test_a_forked_child_takes_turns_in_its_own_session(tmp_path: Path) -> None:
    """A session that a forked child opens within that of its parent orders threads at locks."""

    def work() -> None:
        with use_cassette(tmp_path / "child.yaml", mode="record"), ThreadPoolExecutor(2) as pool:
            assert list(pool.map(ask, "abcd")) == list("abcd")
            assert isinstance(threading.Lock().release, types.MethodType)

    assert status_of_child(tmp_path / "c.yaml", work) == 0
