"""The turns of threads whose order somebody chooses: see `choices`.

In a replay, a thread goes on from one served call to the next, or until it waits for another thread. Once all threads
wait, any call may be answered next: that is a choice point, as in an event loop that is idle. Between two of them
nothing depends on the machine, so an order that was chosen is the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic
from typing import Any

from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.giving_up import current_work
from agenttape_core.scheduling.limits import LONGEST
from agenttape_core.scheduling.strands import (
    AWAY,
    BLOCKING,
    NEW,
    OVER,
    RUNNING,
    SLEEPING,
    WAITING,
    Strand,
    in_loop,
)
from agenttape_core.scheduling.taking_turns import Strands
from agenttape_core.scheduling.turns import wake

_PATIENCE = 0.5
"""Seconds without progress after which a thread that comes to no gate counts as one that cannot be held."""


class ChoosingStrands(Strands):
    """The strands of a replay in which calls are answered in a chosen order.

    Threads that work for an event loop are the business of the loop: once there is one, no thread takes turns.

    Args:
        choices: The order.
        tell: Called with what could not be imposed, in words.
    """

    def __init__(self, choices: Choices, tell: Callable[[str], object]) -> None:
        super().__init__(tell=tell)
        self._choices = choices
        self._tell = tell
        self._answers: dict[Strand, int] = {}
        """The served calls that wait to be answered, by the strands that made them."""
        self._absent: set[Strand] = set()
        """The strands that nobody waits for any more: they wait where nobody can see it."""
        self.is_on = True

    @property
    def is_free(self) -> bool:
        """False: the order that is chosen may be departed from, which is noted with each answer."""
        return False

    @property
    def are_chosen(self) -> bool:
        """True while the calls of threads are answered in a chosen order."""
        return self.is_on

    def fork(self, above: Strand, pool: Any, scope: str, *, is_own: bool) -> Strand:
        """Return a strand for what a strand begins now; if an event loop does, its threads take no turns."""
        if in_loop():
            self._let_go()
        return super().fork(above, pool, scope, is_own=is_own)

    def answer(self, number: int) -> None:
        """Let a served call wait until it is chosen.

        Args:
            number: The number of its recording.
        """
        strand, work = self._mine() if self._forked else None, current_work()
        if strand is None or strand.is_loose or (work is not None and work.line is not None):
            return
        self._answers[strand] = number
        try:
            self._pass(strand, is_call=True)
        finally:
            self._answers.pop(strand, None)

    def depart(self) -> None:
        """Impose no order from now on: something is executed that was not recorded."""
        self._let_go()

    def _let_go(self) -> None:
        """Let everybody go on at once, from now on."""
        with self._lock:
            self.is_on = False
            waiting = list(self._waiting)
            self._waiting.clear()
            self._holder = None
            for strand in [*waiting, *self._live.values()]:
                wake(strand)

    # -- who is next -------------------------------------------------------------------------------------------

    def _may_go_on(self, strand: Strand) -> bool:
        return strand not in self._answers

    def _is_led(self) -> bool:
        return True  # a time passes when nothing else can happen

    def _grant(self) -> None:
        if self._holder is not None or not self.is_on or not self._are_settled():
            return
        free = [strand for strand in self._waiting if strand not in self._answers]
        if free:
            self._hold(min(free, key=_number))
        elif self._waiting and not self._time_passes_first():
            self._hold(self._chosen())
        elif (sleeper := self._first_sleeper()) is not None:
            sleeper.wait.expire()
            sleeper.state = WAITING
            self._waiting[sleeper] = None
            self._hold(sleeper)

    def _time_passes_first(self) -> bool:
        """Return whether the time of a strand that sleeps passes before the next answer comes."""
        return False

    def _chosen(self) -> Strand:
        """Choose among the calls that wait."""
        strands = sorted(self._waiting, key=_number)
        numbers = [self._answers[strand] for strand in strands]
        self._choices.are_threads = True
        chosen = self._choices.choose(numbers)
        if chosen is None:
            chosen = self._choices.choose_anyway(numbers, self._tell)
        return strands[numbers.index(chosen)]

    def _first_sleeper(self) -> Strand | None:
        """Return the strand whose time is over first, of those that wait for no longer than a time."""
        sleepers = [strand for strand in self._live.values() if strand.state == SLEEPING and strand.wait is not None]
        return min(sleepers, key=lambda strand: (strand.wait.left or 0.0, strand.number), default=None)

    def _are_settled(self) -> bool:
        """Return whether no strand is on its way to a gate."""
        return all(strand in self._absent or self._is_settled(strand) for strand in self._live.values())

    def _is_settled(self, strand: Strand) -> bool:
        if strand.state in {BLOCKING, SLEEPING}:
            return not strand.wait.is_told if strand.wait is not None else not self._has_ended(strand.joins)
        if strand.state == NEW:
            return self._cannot_begin(strand)
        return strand.state not in {AWAY, RUNNING}

    def _cannot_begin(self, strand: Strand) -> bool:
        """Return whether work waits for a thread of its pool, and all of these are busy."""
        pool = strand.pool() if strand.pool is not None else None
        size = getattr(pool, "_max_workers", None)
        of_pool = [other for other in self._live.values() if other.pool == strand.pool and other.has_begun]
        return size is not None and len(of_pool) >= size

    def _has_ended(self, joined: Any) -> bool:
        """Return whether what a strand waits for has ended: a thread, or the work of a pool."""
        own = getattr(joined, "_agenttape_strand", None)
        if own is not None:
            return bool(own.state == OVER)
        return not any(strand.pool is not None and strand.pool() is joined for strand in self._live.values())

    def _wait_no_longer(self, now: float) -> None:
        """Let somebody go on, if a strand does not come to a gate for too long, and say so."""
        others = [
            strand for strand in self._live.values() if strand not in self._absent and not self._is_settled(strand)
        ]
        if self._progress.is_made(strand for strand in others if strand.thread) and now - self._granted < LONGEST:
            self._since = now
        if now - self._since > _PATIENCE:
            self._go_on_without(others)

    def _go_on_without(self, others: Collection[Strand]) -> None:
        """Wait no more for strands that come to no gate."""
        self._absent.update(others)
        self._choices.is_held = False
        self._tell("a thread waits where nobody can see it")
        self._since = monotonic()
        self._grant()


def _number(strand: Strand) -> int:
    return strand.number
