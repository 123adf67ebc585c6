"""Children that are forked in a session, and tracers that start in one, wait for no lock that nobody releases."""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from coverage.collector import Collector

from agenttape_core import locks, use_cassette
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteMissError

from .world import fork, look, status_of

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def test_a_tracer_takes_its_lock_without_our_code(tmp_path: Path) -> None:
    """A thread that starts in a session is traced with the real methods of coverage's lock, and takes no turn at it."""
    measured = Coverage(data_file=None, include=["*"], concurrency="thread")
    measured.start()
    try:
        for mode in ("record", "replay"):
            with use_cassette(tmp_path / "c.yaml", mode=mode), ThreadPoolExecutor(2) as pool:
                list(pool.map(look, "abcd"))
                lock = Collector._collectors[-1].data_lock
                assert lock is not None
                assert not isinstance(lock.acquire, types.MethodType)
                assert not isinstance(lock.release, types.MethodType)
    finally:
        measured.stop()


@contextmanager
def threads_taking_turns(path: Path) -> Iterator[None]:
    """Begin a session whose threads take turns."""
    with use_cassette(path, mode="record"), ThreadPoolExecutor(2) as pool:
        assert list(pool.map(look, "abcd")) == ["a!", "b!", "c!", "d!"]
        yield


def status_of_child(path: Path, work: Callable[[], object]) -> int:
    """Return the exit code of a child that is forked inside of such a session."""
    with threads_taking_turns(path):
        child = fork(lambda: work() is None)
    return status_of(child)


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

    def work() -> bool:
        with threads_taking_turns(tmp_path / "c.yaml"):
            measure()
        return True

    assert status_of(fork(work)) == 0


def test_a_forked_child_takes_turns_in_its_own_session(tmp_path: Path) -> None:
    """A session that a forked child opens within that of its parent orders threads at locks."""

    def work() -> None:
        with threads_taking_turns(tmp_path / "child.yaml"):
            assert isinstance(threading.Lock().release, types.MethodType)

    assert status_of_child(tmp_path / "c.yaml", work) == 0


pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


class Holder:
    """A thread that holds all of our locks that are free, when it's asked to.

    It and the test wait at pipes: whoever waits at an event of Python's within a session may need one of these locks.
    """

    def __init__(self) -> None:
        (self._asked, self._ask), (self._told, self._tell) = os.pipe(), os.pipe()
        self._count = 0
        self._thread = threading.Thread(target=self._hold)
        self._thread.start()

    def _hold(self) -> None:
        while os.read(self._asked, 1) == b"x":
            taken = [lock for lock in list(locks._made) if lock.acquire(blocking=False)]
            self._count = len(taken)
            os.write(self._tell, b"x")
            os.read(self._asked, 1)
            for lock in taken:
                lock.release()
            os.write(self._tell, b"x")

    def _tell_it(self) -> None:
        os.write(self._ask, b"x")
        os.read(self._told, 1)

    def status_of(self, work: Callable[[], object]) -> int:
        """Fork while the thread holds them; return the exit code of the child: 0 if it has returned something true."""
        self._tell_it()
        assert self._count > 10
        child = fork(work)
        self._tell_it()
        return status_of(child)

    def close(self) -> None:
        """End the thread."""
        os.write(self._ask, b"-")
        self._thread.join()
        for end in (self._asked, self._ask, self._told, self._tell):
            os.close(end)


@pytest.fixture
def holder() -> Iterator[Holder]:
    """A thread that is older than the session."""
    made = Holder()
    yield made
    made.close()


def refused(call: Callable[[], object], match: str) -> bool:
    """Whether a call is refused in these words."""
    try:
        call()
    except (AgentTapeError, AgentTapeHalt) as error:
        return match in str(error)
    return False


@pytest.mark.usefixtures("recorded")
def test_a_child_forked_in_a_replay_is_replayed(holder: Holder) -> None:
    """Its calls are replayed from the cassette, as those of its parent are."""
    with use_cassette("c"):
        assert holder.status_of(lambda: look("Paris") == "Paris!") == 0
        look("Paris")


@pytest.mark.usefixtures("recorded")
def test_a_child_forked_in_a_replay_is_refused(holder: Holder) -> None:
    """A miss fails it and its parent, even if it swallows the miss."""
    with pytest.raises(CassetteMissError, match="Rome"), use_cassette("c", on_unused="ignore"):
        assert holder.status_of(lambda: refused(lambda: look("Rome"), "Rome")) == 1


def test_a_child_forked_in_a_recording_fails(holder: Holder) -> None:
    """Its parent writes the file: it's told so."""
    with use_cassette("c", mode="all"):
        look("Paris")
        assert holder.status_of(lambda: refused(lambda: look("Oslo"), "forked from")) == 1


def test_a_child_opens_a_session_of_its_own(holder: Holder) -> None:
    """What the process keeps for all of its sessions is free, too."""

    def replay() -> Any:
        with use_cassette("c"):
            return look("Paris")

    with use_cassette("c", mode="all"):
        look("Paris")
    with use_cassette("other", mode="all"):
        look("Oslo")
        assert holder.status_of(replay) == 0


def test_what_the_forking_thread_holds_stays_held(holder: Holder) -> None:
    """It releases the lock in the child as it would in the parent."""
    lock = locks.RLock()

    def leave() -> bool:
        lock.release()
        return lock.acquire(blocking=False)

    with lock:
        assert holder.status_of(leave) == 0
