"""The recorded order of threads, imposed on a replay: who is next, and what can be as it was no more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from agenttape_core.scheduling.interleaving import (
    Script,
    creator_of,
    maker_of,
    strand_of,
    withdrawal_of,
    withdrawn_by,
)
from agenttape_core.scheduling.strands import NEW, SLEEPING, WAITING, Strand

_TRIES = 8
"""Number of gates that are passed out of order before a replay imposes no order any more."""


class Imposed:
    """The order that a replay follows. Used by one thread at a time.

    Args:
        script: The recorded order.
        live: The strands that have not ended, by label.
        over: The labels of those that have.
        waiting: The strands that wait for the turn.
        tell: Called with what could not be imposed, in words.
    """

    def __init__(
        self,
        script: Script,
        live: Mapping[str, Strand],
        over: Collection[str],
        waiting: Collection[Strand],
        tell: Callable[[str], object],
    ) -> None:
        self.script = script
        self._live, self._over, self._waiting = live, over, waiting
        self._tell = tell
        self._in_vain = 0
        self.is_lost = False
        """True once no order is imposed any more."""

    def head(self) -> str | None:
        """Return the label that is next, having left out the gates that nobody comes to any more; `None` at the end."""
        while not self.is_lost and (head := self.script.head) is not None and self._is_dead(head):
            self._depart(head, f"a recorded gate of {strand_of(head)} that it does not come to")
            self.script.drop()
        return self.script.head

    def next(self) -> Strand | None:
        """Return the strand that gets the turn, of those that wait; `None` to wait for another one."""
        head = self.head()
        if head is None or self.is_lost:
            return next(iter(self._waiting))
        for strand in self._waiting:
            if self._sleeps_anew(strand) or strand.label == head:
                return strand
        for strand in self._waiting:
            if self.script.is_in_row(strand.label, strand.labels[0]):
                return strand
        for strand in self._waiting:
            if not self.script.has(strand.label) and not self.is_withdrawn(strand):
                if strand.is_unseen:  # a library ends a thread of its own: the session may have ended before that
                    return strand
                self._depart(strand.label, f"a gate of {strand.labels[0]} that was not recorded")
                return strand
        return self.out_of_order("all threads wait for one that does not come") if self._is_stuck() else None

    def is_withdrawn(self, strand: Strand) -> bool:
        """Return whether a strand is cancelled before it begins, as it was in the recording."""
        return self.script.has(withdrawal_of(strand.label))

    def takes(self, strand: Strand) -> None:
        """Note that a strand passes a gate."""
        if self.script.has(strand.label) and not self._sleeps_anew(strand):
            self.script.take(strand.label)

    def _sleeps_anew(self, strand: Strand) -> bool:
        """Return whether a strand has slept where it did not in the recording: that makes no other program."""
        is_sleep = strand.wait is not None and strand.wait.is_over and not strand.wait.key
        return is_sleep and not self.script.is_late_next(strand.label)

    def sleeper(self) -> Strand | None:
        """Return the strand that is next, if it waits for a time to pass: when it was recorded, it had passed."""
        head = self.head()
        strand = self._live.get(strand_of(head)) if head is not None else None
        is_next = strand is not None and strand.state == SLEEPING and strand.wait is not None and strand.label == head
        return strand if is_next and self.script.is_late else None

    def out_of_order(self, why: str) -> Strand | None:
        """Return the strand that is to go on although it is not its turn."""
        self._tell(why)
        first = self.script.first_of({strand.label for strand in self._waiting})
        return next((strand for strand in self._waiting if strand.label == first), None)

    def cannot_begin(self, strand: Strand) -> bool:
        """Return True for work in a pool whose threads all wait for the turn."""
        if strand.state != NEW or strand.pool is None:
            return False
        size = getattr(strand.pool(), "_max_workers", None)
        busy = sum(other.pool == strand.pool and other.state == WAITING for other in self._live.values())
        return size is not None and busy >= size

    def _depart(self, label: str, why: str) -> None:
        if ":" in label:  # inside a call, a replay need not do what the recording did
            return
        self._tell(why)
        self._in_vain += 1
        self.is_lost = self._in_vain >= _TRIES  # it is another program

    def _is_dead(self, label: str) -> bool:
        own = strand_of(maker_of(label) or withdrawn_by(label) or label)
        strand = self._live.get(own)
        if strand is not None and own == withdrawn_by(label):
            return strand.state not in (NEW, WAITING)
        if strand is not None:
            return label != own and strand.state == WAITING and label not in strand.labels
        creator = creator_of(own)
        return own in self._over or (bool(creator) and self._is_dead(creator))

    def _is_stuck(self) -> bool:
        """Return whether nobody can come any more but those who wait."""
        return all(strand.state == WAITING or self.cannot_begin(strand) for strand in self._live.values())
