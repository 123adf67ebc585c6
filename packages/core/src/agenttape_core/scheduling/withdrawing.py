"""Work of a thread pool that is cancelled, and the end of the session: how far threads had come is part of their order.

A pool's thread takes a piece of work, and marks its future as running; from then on nobody can cancel it. Which comes
first, that or the cancellation, would follow from how quick the thread is. So work begins at its first gate, before its
future is marked. Until then it can be withdrawn, and then its strand passes no gate, in whatever thread it is. The
order has a label for that, so that a replay lets the work wait for it.
"""

from __future__ import annotations

import _thread
from abc import abstractmethod
from collections.abc import Callable
from time import monotonic

from agenttape_core.scheduling.holder import sleeps_unseen
from agenttape_core.scheduling.interleaving import ROOT, delivery_of, passed_by, withdrawal_of
from agenttape_core.scheduling.strands import AWAY, BLOCKING, NEW, OVER, SLEEPING, WAITING, Strand
from agenttape_core.scheduling.turns import wake
from agenttape_core.scheduling.visiting import VisitedTurns

_ENDS = "ends"
"""The key of the end of a session beside which threads go on."""
_MOMENT = 0.5
"""Seconds for which the end of a session lets threads go on that do not wait."""
_LOOK = 0.001
"""Seconds between two looks after them."""

_acquire: Callable[..., bool] = _thread.LockType.acquire  # the real one, at which nobody takes turns


class WithdrawnTurns(VisitedTurns):
    """Turns of strands of which some are cancelled before they begin."""

    def begins_all_the_same(self, strand: Strand) -> bool:
        """Return whether work that is cancelled now had begun when it was recorded: a thread waits to begin it."""
        with self._lock:
            imposed = self._imposed
            return imposed is not None and strand.state == WAITING and imposed.script.has(strand.labels[0])

    def withdraw(self, strand: Strand) -> None:
        """Let a strand pass no gate any more: its work was cancelled, and has not begun."""
        with self._lock:
            self.is_cancelled(strand)
            if strand.state not in (NEW, WAITING):
                return  # its thread has just begun
            label = withdrawal_of(strand.labels[0])
            if self._notes is not None and self.is_on:
                self._notes.passed(label)
            if self._imposed is not None and self._imposed.script.has(label):
                self._imposed.script.take(label)
            if strand in self._waiting:
                del self._waiting[strand]
                wake(strand)
            self.end(strand)

    def is_cancelled(self, strand: Strand) -> None:
        """Note that work is cancelled that has begun, or is done.

        How far it has come is part of the order, if the caller has the turn.
        """
        if self._notes is None or not self.is_on or len(strand.labels) > 1:
            return
        with self._lock:
            if self._holder is not None and self._holder is self._of_this_thread():
                self._met = True  # the order matters, though no two strands were under way at once
            elif strand.state != OVER:
                self.is_loose(strand)

    def settle(self) -> None:
        """Take the turn for the end of the session, in the thread that entered it.

        Threads that nobody waits for may go on beside it, and what they did before is part of the run. Those that are
        about to go on do so first, for a moment. What they do afterwards is in no order, and its time and ids are real.
        """
        strand = self._of_this_thread()
        if not (self._forked and self.is_on) or strand is None or strand.labels != [ROOT]:
            return
        label = delivery_of(ROOT, _ENDS)
        if self._imposed is not None:
            if not self._imposed.script.has(label):
                return
        elif not (self._going_on(strand) or self._went_on_last(strand)):
            return
        else:
            self._let_others_end(strand)
        self._pass_below(label, strand, is_seen=False)
        if self._imposed is not None:
            self._let_others_end(strand)
        with self._lock:
            self._met = True
            for other in self._going_on(strand):
                self.is_loose(other)

    def _went_on_last(self, strand: Strand) -> bool:
        last = passed_by(self._notes.last) if self._notes is not None else ""
        return last not in ("", strand.labels[0]) and last not in self._said_nothing()

    def _let_others_end(self, strand: Strand) -> None:
        since = monotonic()
        self.leave_turn(strand, AWAY)
        while self._going_on(strand) and monotonic() - since < _MOMENT:
            _acquire(strand.wake, True, _LOOK)

    def _going_on(self, strand: Strand) -> list[Strand]:
        """Return the other strands of the program that neither wait nor sleep, and were in order so far.

        The code of a call that acts outside does not run in a replay, which serves the call.
        """
        return [
            other
            for other in list(self._live.values())
            if other is not strand
            and other.state not in (BLOCKING, SLEEPING, OVER)
            and not (other.is_thread and other.is_of_library)
            and not (other.is_out or other.is_real)
            and not self._loose.knows(other.labels[0])
            and not sleeps_unseen(other)
        ]

    @abstractmethod
    def _said_nothing(self) -> set[str]:
        """Return the labels of strands that did nothing that others can see."""

    @abstractmethod
    def end(self, strand: Strand) -> None:
        """End a strand."""

    @abstractmethod
    def is_loose(self, strand: Strand) -> None:
        """Note that a strand has done what others can see in no fixed order."""
