"""A participant that has the turn, and blocks where nobody sees it: in C code, a socket, a pipe, a process.

Only such a one loses the turn. One that computes keeps it, however long: nothing depends on how fast it is.

Where greenlets are in the place of threads, as gevent's are, all of them share one thread. So whoever looks there is
the one that runs, and the one that has the turn waits for something, whatever that is.
"""

from __future__ import annotations

import sys
import threading

from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.scheduling.holder import call_of, is_shared, late_by, place_of, spent_by
from agenttape_core.scheduling.limits import LONGEST
from agenttape_core.scheduling.strands import HERE, WORKS, Strand

_BLOCKED = 0.05
"""Seconds in one system call that is no wait for a lock, after which a thread counts as blocked."""
_LOCKED = 1.0
"""The same for a wait for a lock, or for the interpreter: both are the same call."""
_SPINS = 2.0
"""Seconds of processor time after which code that goes on while others wait counts as waiting for them."""


def is_of_library(participant: Strand) -> bool:
    """Return whether a thread of a library has no code of the program on its stack, as a writer of logs that waits.

    What it does next is in no order, but nothing of the program.
    """
    if participant.is_own or participant.pool is not None:
        return False
    frame = sys._current_frames().get(participant.thread)  # noqa: SLF001 - the way to look at other threads
    if frame is None:  # a greenlet's code can't be looked at
        return False
    while frame is not None:
        if not (is_library(frame.f_code.co_filename) or is_own(frame)):
            return False
        if participant.is_loose and frame.f_code.co_name == WORKS:
            return False
        frame = frame.f_back
    return True


class Stall:
    """The look at a participant that has the turn while others wait.

    Args:
        participant: The participant.
        now: The moment, on the monotonic clock.
    """

    def __init__(self, participant: Strand, now: float) -> None:
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
        if one.native == threading.get_native_id() and one is not HERE.strand:
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
