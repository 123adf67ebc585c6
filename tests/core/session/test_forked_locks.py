"""A child that is forked while another thread holds one of our locks isn't stopped by it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agenttape_core import locks, use_cassette
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteMissError

from .world import look

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

    def status_of(self, child: Callable[[], object]) -> int:
        """Fork while the thread holds them; return the exit code of the child: 0 if it has returned something true."""
        os.write(self._ask, b"x")
        os.read(self._told, 1)
        assert self._count > 10
        pid = os.fork()
        if not pid:
            code = 1
            try:
                signal.alarm(20)  # if it hangs
                code = 0 if child() else 2
            finally:
                os._exit(code)
        os.write(self._ask, b"x")
        os.read(self._told, 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

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
