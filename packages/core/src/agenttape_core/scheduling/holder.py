"""The holder of the turn: does its code go on, or does it wait where nobody can see it?

A thread that waits in C (for a socket, a pipe, a lock of a library) looks like one that computes. Linux says which of
them it is, and which system call a thread is in; other systems do not, and there a thread whose code stands still for a
moment counts as one that waits.
"""

from __future__ import annotations

import sys
import threading

from agenttape_core.guard.caller import is_own
from agenttape_core.scheduling.limits import LONGEST
from agenttape_core.scheduling.strands import Strand

_HARDLY = 0.005
"""Seconds by which no limit is extended."""
_SHARED = ("202 ", "98 ", "240 ", "422 ")
"""The numbers of `futex` on the processors that Linux runs on; locks are waited for by it."""


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


def is_waiting(strand: Strand) -> bool:
    """Return whether the thread of a strand waits for another thread now, as far as its code says."""
    frame = sys._current_frames().get(strand.thread)  # noqa: SLF001 - as above
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == threading.__file__


def is_shared(call: str | None) -> bool:
    """Return whether a system call is the one by which locks are waited for, and the interpreter."""
    return call is None or call.startswith(_SHARED)
