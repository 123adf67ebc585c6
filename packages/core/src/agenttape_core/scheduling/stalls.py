"""Find out whether the participant that has the turn blocks where it can't be seen: in C, a socket, a pipe, a process.

Only such a one loses the turn. One that computes keeps it, however long: nothing depends on how fast it is.

A thread that waits in C (for a socket, a pipe, a lock of a library) looks like one that computes. Linux tells which of
them it is, and which system call a thread is in; other systems don't, and there a thread whose code doesn't move for a
moment counts as one that waits.

Where greenlets replace threads, as gevent's do, all of them share one thread. So whoever looks there is the one that
runs, and the one that has the turn waits for something, whatever that is.
"""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType
from typing import Any

from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.locks import freed_by_fork
from agenttape_core.scheduling.participants import HERE, WORKS, OwnLock, Participant

"""The longest times for which participants wait for each other where nothing says that the wait is in vain.

Shorter limits stand beside the waits that they end, each with what it takes for a sign. These end what shows no sign.
"""

LONGEST = 10.0
"""Seconds of any kind for which a participant that continues, but hardly computes, as it polls, is waited for.

It is the same for one that has the turn, one that does not come to a gate, and one whose post waits for its turn in an
event loop: a machine that is busy makes each of them late by seconds, and none by more.
"""


_HARDLY = 0.005
"""Seconds by which no limit is extended."""
_SHARED = ("202 ", "98 ", "240 ", "422 ")
"""The numbers of `futex` on the processors that Linux runs on; locks are waited for by it."""


_Place = tuple[int, int] | None


_LISTING: Any = freed_by_fork(OwnLock())
_COLLECTS_WHILE_LISTING = sys.version_info < (3, 12)
"""Python 3.11 may collect garbage while it holds its own lock for the list of threads. What that deletes may let
another thread run, which comes to that lock: then all of them wait forever (https://github.com/python/cpython/issues/106883)."""


def frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread that can be looked at; the code of a greenlet can't.

    Python gave a value that wasn't a frame once, on a busy machine: it makes frame objects for threads that run on. The
    cause isn't known; such a thread has no place until the next look.
    """
    with _LISTING:  # or another thread that is here might let the collector begin again
        is_paused = _COLLECTS_WHILE_LISTING and gc.isenabled()
        if is_paused:
            gc.disable()
        try:
            found: dict[int, object] = {**sys._current_frames()}  # noqa: SLF001 - the way to look at other threads
        finally:
            if is_paused:
                gc.enable()
    return {ident: frame for ident, frame in found.items() if isinstance(frame, FrameType)}


def place_of(participant: Participant) -> _Place:
    """Return where in its Python code a thread is."""
    frame = frames().get(participant.thread)
    return (id(frame), frame.f_lasti) if frame is not None else None


def call_of(participant: Participant) -> str | None:
    """Return the system call that a thread sleeps in; empty if it sleeps in none, `None` if the system does not say."""
    task = f"/proc/self/task/{participant.native}/"
    state = _read(task + "stat").rpartition(b") ")[2][:1]
    if state in (b"R", b"D"):  # it waits for a processor, or for the disk
        return ""
    call = _read(task + "syscall").decode() if state else ""
    return ("" if call.startswith("running") else call) if call else None


def spent_by(native: int | None) -> float | None:
    """Return the seconds of processor time that a thread has had; `None` if the system does not say.

    Args:
        native: The number by which the system knows it.
    """
    spent = _read(f"/proc/self/task/{native}/schedstat").partition(b" ")[0]
    return int(spent) / 1e9 if spent.isdigit() else None


class Lateness:
    """The seconds for which a thread of this process has waited for a processor, on a machine that is busy.

    A limit of a wait for what any thread may do is extended by them: that thread may be the one that is waited for. But
    as one may compute all the time on a machine that is always busy, they are not more than `LONGEST`.
    """

    def __init__(self) -> None:
        self._before, self._counted = _all_late(), 0.0

    def __call__(self) -> float:
        """Return those since this was made, of the thread that has the most."""
        found = (late - self._before.get(native, 0.0) for native, late in _all_late().items())
        return min(max(found, default=0.0), LONGEST)

    def more(self) -> float:
        """Return those that were not returned before; 0 if they are hardly any."""
        more = self() - self._counted
        if more <= _HARDLY:
            return 0.0
        self._counted += more
        return more


def _all_late() -> dict[int, float]:
    """Return the seconds for which each thread of this process has waited for a processor."""
    threads = tuple(threading._active.values())  # type: ignore[attr-defined] # noqa: SLF001 - `enumerate` takes a lock
    return {thread.native_id: late_by(thread.native_id) for thread in threads}


def late_by(native: int) -> float:
    """Return the seconds for which a thread has waited for a processor; 0 if the system does not say."""
    late = _read(f"/proc/self/task/{native}/schedstat").split()[1:2]
    return int(late[0]) / 1e9 if late else 0.0


def _read(path: str) -> bytes:
    """Return the beginning of a file of the system's; empty if there is none."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - in a hurry
            return file.read(256)
    except OSError:
        return b""


def is_waiting(participant: Participant) -> bool:
    """Return whether the thread of a participant waits for another thread now, as far as its code says."""
    frame = frames().get(participant.thread)
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == threading.__file__


def is_shared(call: str | None) -> bool:
    """Return whether a system call is the one by which locks are waited for, and the interpreter."""
    return call is None or call.startswith(_SHARED)


_BLOCKED = 0.05
"""Seconds in one system call other than a wait for a lock, after which a thread counts as blocked."""
_LOCKED = 1.0
"""The same for a wait for a lock, or for the interpreter: both are the same call."""
_SPINS = 2.0
"""Seconds of processor time after which code that continues while others wait counts as waiting for them."""


def is_of_library(participant: Participant) -> bool:
    """Return whether a thread of a library has no code of the program on its stack, as a writer of logs that waits.

    What it does next is in no order, but nothing of the program.
    """
    if participant.is_own or participant.pool is not None:
        return False
    frame = frames().get(participant.thread)
    if frame is None:
        return False
    while frame is not None:
        if not (is_library(frame.f_code.co_filename) or is_own(frame)):
            return False
        if participant.is_unordered and frame.f_code.co_name == WORKS:
            return False
        frame = frame.f_back
    return True


class Stall:
    """The look at a participant that has the turn while others wait.

    Args:
        participant: The participant.
        now: The moment, on the monotonic clock.
    """

    def __init__(self, participant: Participant, now: float) -> None:
        self._participant = participant
        self._since = self._still_since = now
        self._place = place_of(participant)
        self._spent = self._spent_still = spent_by(participant.native)
        self._late = late_by(participant.native)

    def is_over(self, now: float) -> bool:
        """Return whether it is to lose the turn.

        One that is to keep it while it waits, and one that polls, which never stands still, lose it after the longest
        wait for what others may hold.
        """
        one = self._participant
        is_long = now - self._since - (late_by(one.native) - self._late) > LONGEST
        if one.native == threading.get_native_id() and one is not HERE.participant:
            return is_long or (not one.is_held and now - self._since > _BLOCKED)
        place, spent = place_of(one), spent_by(one.native)
        if place != self._place or spent != self._spent_still:
            self._place, self._spent_still, self._still_since = place, spent, now
        call = call_of(one)
        if one.is_held:
            return is_long and call != "" and now - self._still_since > _LOCKED
        if is_long or (spent is not None and self._spent is not None and spent - self._spent > _SPINS):
            return True
        if call == "":
            return False
        return now - self._still_since > (_LOCKED if is_shared(call) else _BLOCKED)
