"""The holder of the turn: does its code go on, or does it wait where nobody can see it?

A thread that waits in C (for a socket, a pipe, a lock of a library) looks like one that computes. Linux says which of
them it is, and which system call a thread is in; other systems do not, and there a thread whose code stands still for a
moment counts as one that waits.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from time import monotonic

from agenttape_core.guard.caller import is_own
from agenttape_core.scheduling.limits import LONGEST
from agenttape_core.scheduling.strands import Strand

_ASLEEP = 0.01
"""Seconds after which a thread that stays in one system call counts as waiting."""
_BLOCKED = 0.05
"""The same for a system call that Python makes too, when it waits for the interpreter."""
_STARVED = 1.0
"""Seconds for which a thread may wake in such a call, and go on waiting: on a busy machine others come before it."""
_STILL = 0.01
"""The same where the system does not say what a thread does."""
_LONG = 0.15
"""Seconds of processor time for which a thread may compute while others wait for the turn; of any, where unknown."""
_HARDLY = 0.005
"""Seconds by which no limit is extended."""
_SHARED = ("202 ", "98 ", "240 ", "422 ")
"""The numbers of `futex` on the processors that Linux runs on; locks are waited for by it."""


_RESULT = Future.result.__code__
_Place = tuple[int, int] | None


def place_of(strand: Strand) -> _Place:
    """Return where in its Python code a thread is."""
    frame = sys._current_frames().get(strand.thread)  # noqa: SLF001 - the way to look at other threads
    return (id(frame), frame.f_lasti) if frame is not None else None


def call_of(strand: Strand) -> str | None:
    """Return the system call that a thread sleeps in; empty if it sleeps in none, `None` if the system does not say."""
    task = f"/proc/self/task/{strand.native}/"
    state = _read(task + "stat").rpartition(b") ")[2][:1]
    if state in (b"R", b"D"):  # it waits for a processor, or for the disk
        return ""
    call = _read(task + "syscall").decode() if state else ""
    return ("" if call.startswith("running") else call) if call else None


def _spent(strand: Strand) -> float | None:
    return spent_by(strand.native)


def spent_by(native: int | None) -> float | None:
    """Return the seconds of processor time that a thread has had; `None` if the system does not say.

    Args:
        native: The number by which the system knows it.
    """
    spent = _read(f"/proc/self/task/{native}/schedstat").partition(b" ")[0]
    return int(spent) / 1e9 if spent.isdigit() else None


def _times_run(strand: Strand) -> bytes:
    """Return the number of times that a thread was given a processor; empty if the system does not say."""
    return _read(f"/proc/self/task/{strand.native}/schedstat").rpartition(b" ")[2]


class OwnTime:
    """The seconds that pass for a thread: without those in which it waits for a processor, on a machine that is busy.

    Args:
        thread: The identity of the thread; `None` if it has ended.
    """

    def __init__(self, thread: int | None) -> None:
        found = threading._active.get(thread)  # type: ignore[attr-defined] # noqa: SLF001 - `enumerate` takes a lock
        self._native = found.native_id if found is not None else 0
        self._began, self._late = monotonic(), _late(self._native)

    def __call__(self) -> float:
        """Return the seconds that have passed for it."""
        return monotonic() - self._began - (_late(self._native) - self._late)


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
    return {thread.native_id: _late(thread.native_id) for thread in threads}


def _late(native: int) -> float:
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


def is_waiting(strand: Strand) -> bool:
    """Return whether the thread of a strand waits for another thread now, as far as its code says."""
    frame = sys._current_frames().get(strand.thread)  # noqa: SLF001 - as above
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == threading.__file__


def sleeps_unseen(strand: Strand) -> bool:
    """Return whether the thread of a strand sleeps in a system call that is no wait for the interpreter."""
    call = call_of(strand) if strand.native else ""
    return bool(call) and not is_shared(call)


def waits_for_loop(strand: Strand) -> bool:
    """Return whether the thread of a strand waits for a future that no thread pool answers: an event loop does."""
    frame = sys._current_frames().get(strand.thread)  # noqa: SLF001 - as above
    while frame is not None and frame.f_code is not _RESULT:
        frame = frame.f_back
    future = frame.f_locals.get("self") if frame is not None else None
    return type(future) is Future and not future.done()


class Holding:
    """The time for which a strand has the turn.

    Args:
        strand: The strand.
        now: The moment at which it got the turn, or passed its last gate, on the monotonic clock.
    """

    def __init__(self, strand: Strand, now: float) -> None:
        self._strand = strand
        self._since = self._still_since = now
        self._place: _Place = None
        self._call: str | None = ""
        self._spent: float | None = None
        self._times_run = b""

    def is_over(self, now: float, *, is_late: bool) -> bool:
        """Look at the strand, and return whether the turn is to be taken from it.

        Args:
            now: The moment, on the monotonic clock.
            is_late: Whether the look comes late: perhaps the strand waits for the interpreter, as the caller did.
        """
        before, self._place = self._place, place_of(self._strand)
        if before is None:
            self._spent = _spent(self._strand)
        if self._strand.is_real and (call := call_of(self._strand)) and not is_shared(call):
            return True  # mostly a replay serves the call, so nothing depends on what its code does
        if self._place != before:
            self._still_since = now
            return self._has_computed(now) > _LONG
        called, self._call = self._call, call_of(self._strand)
        if self._call == "" or self._call != called or (is_shared(self._call) and (is_late or self._starves(now))):
            self._still_since = now
        return now - self._still_since > _patience(self._call) or self._has_computed(now) > _LONG

    def _starves(self, now: float) -> bool:
        """Return whether the strand wakes again and again: mostly for the interpreter, which it does not get."""
        before, self._times_run = self._times_run, _times_run(self._strand)
        return self._times_run != before and now - self._since < _STARVED

    def _has_computed(self, now: float) -> float:
        """Return the seconds of processor time that the strand has had, or of any, where these are all that counts."""
        passed = now - self._since
        if passed <= _LONG or passed > LONGEST or self._spent is None:
            return passed
        spent = _spent(self._strand)
        return spent - self._spent if spent is not None else passed


def is_shared(call: str | None) -> bool:
    """Return whether a system call is the one by which locks are waited for, and the interpreter."""
    return call is None or call.startswith(_SHARED)


def _patience(call: str | None) -> float:
    if call is None:
        return _STILL
    return _BLOCKED if is_shared(call) else _ASLEEP


class Progress:
    """The code of some strands: does any of them go on?"""

    def __init__(self) -> None:
        self._before: dict[Strand, _Place] = {}

    def is_made(self, strands: Iterable[Strand]) -> bool:
        """Return whether the code of any strand has gone on since the last look, or computes."""
        now = {strand: place_of(strand) for strand in strands}
        before, self._before = self._before, now
        return any(strand not in before or place != before[strand] for strand, place in now.items()) or any(
            call_of(strand) == "" for strand in now
        )
