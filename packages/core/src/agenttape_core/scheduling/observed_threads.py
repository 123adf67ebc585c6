"""The turns of the threads of a run that was only observed.

An observer does not see where threads begin and wait, so there is no recorded order of gates. But it knows when each
answer came, and each chunk of a stream. So a replay lets all threads come as far as they can, and then gives the answer
that came first: see `choosing_threads`. That also holds where no calls overlapped: quick ones of threads may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.choosing_threads import ChoosingStrands
from agenttape_core.scheduling.giving_up import current_work
from agenttape_core.scheduling.loose import BETWEEN_ANSWERS
from agenttape_core.scheduling.strands import SLEEPING, Strand
from agenttape_core.scheduling.waits import Wait
from agenttape_core.schema import IndexRow, Timing


class AnswersInTime(Choices):
    """The choice of the answer, or the chunk, that came first in the recording. Used by one thread at a time.

    Args:
        timings: The recorded times, by the numbers of the calls.
    """

    def __init__(self, timings: Mapping[int, Timing]) -> None:
        super().__init__()
        self._timings = timings
        self._came: Counter[int] = Counter()

        self.now = 0.0
        """The time at which the last of them came, in milliseconds as the recording has it."""

    def choose(self, waiting: Sequence[int]) -> int:
        """Return the call whose next answer came first, of those that wait."""
        chosen = min(waiting, key=self.due)
        self.now = max(self.now, self.due(chosen))
        self._came[chosen] += 1
        return chosen

    def due(self, number: int) -> float:
        """Return when the next answer of a call came, in milliseconds as the recording has it; 0 if not known."""
        timing, came = self._timings.get(number), self._came[number]
        if timing is None or timing.start_ms is None:
            return 0.0
        took = timing.offsets_ms[came] if came < len(timing.offsets_ms) else timing.duration_ms
        return timing.start_ms + took


class ObservedStrands(ChoosingStrands):
    """The strands of a replay of an observed run. They take turns if there was more than one call in it.

    Args:
        rows: The recordings.
        timings: Returns their times, by their numbers.
        tell: Called with what could not be imposed, in words.
        tell_unseen: Called with what nobody has seen of the run, in words.
    """

    def __init__(
        self,
        rows: Collection[IndexRow],
        timings: Callable[[], Mapping[int, Timing]],
        tell: Callable[[str], object],
        tell_unseen: Callable[[str], object],
    ) -> None:
        super().__init__(Choices(), tell)
        self._tell_unseen = tell_unseen
        self._rows, self._timings = rows, timings
        self._in_time: AnswersInTime | None = None
        self._have_overlapped = False
        self._wakes: WeakKeyDictionary[Wait, float] = WeakKeyDictionary()
        """The times at which sleeping strands go on, in milliseconds as the recording has them."""

    def fork(self, above: Strand, pool: Any, scope: str, *, is_own: bool) -> Strand:
        """Return a strand for what a strand begins now; the first one decides whether strands take turns."""
        if self.is_on and not self._forked:
            timings = self._timings()
            self._choices = self._in_time = AnswersInTime(timings)
            self._have_overlapped = _have_overlapped(self._rows, timings)
            self.is_on = len(self._rows) > 1  # calls that were made one after the other may have been those of threads
        return super().fork(above, pool, scope, is_own=is_own)

    def answer(self, number: int) -> None:
        """Let a served call wait until it is chosen. Those of threads that work for event loops are not chosen."""
        work = current_work()
        if work is not None and work.line is not None and _have_overlapped(self._rows, self._timings()):
            self._tell_unseen(BETWEEN_ANSWERS)
        super().answer(number)

    def _chosen(self) -> Strand:
        timings = self._timings()
        waiting = [timings.get(number) for number in self._answers.values()]
        if len(waiting) > 1 and not all(timing is not None and timing.offsets_ms for timing in waiting):
            self._tell_unseen(BETWEEN_ANSWERS)  # a stream is read chunk by chunk, and has hardly anything in between
        return super()._chosen()

    def leave_turn(self, strand: Strand, state: int) -> None:
        """Let others have the turn. One that sleeps does so from the time of the last answer."""
        with self._lock:
            wait = strand.wait
            if state == SLEEPING and wait is not None and not wait.key and self._in_time is not None:
                self._wakes[wait] = self._in_time.now + 1000 * (wait.left or 0.0)
            super().leave_turn(strand, state)

    def _go_on_without(self, others: Collection[Strand]) -> None:
        """Take no turns any more if no calls overlapped: one strand may have made them all."""
        if self._have_overlapped:
            super()._go_on_without(others)
            return
        if len(self._answers) + sum(strand.is_own for strand in others) > 1:
            self._tell_unseen(BETWEEN_ANSWERS)
        self._let_go()

    def _time_passes_first(self) -> bool:
        sleeper = self._first_sleeper()
        if sleeper is None or sleeper.wait not in self._wakes or self._in_time is None:
            return False
        return self._wakes[sleeper.wait] <= min(map(self._in_time.due, self._answers.values()))

    def _first_sleeper(self) -> Strand | None:
        """Return the strand that goes on first of those that sleep, or else that give up at some time."""
        wakes = [
            (self._wakes[strand.wait], strand.number, strand)
            for strand in self._live.values()
            if strand.state == SLEEPING and strand.wait in self._wakes
        ]
        return min(wakes)[2] if wakes else super()._first_sleeper()


def _have_overlapped(rows: Collection[IndexRow], timings: Mapping[int, Timing]) -> bool:
    """Return whether a call began before another one had ended, which it was no part of."""
    timed = [(timing.start_ms, timing, row) for row in rows if (timing := timings.get(row.number)) is not None]
    last, until = "", float("-inf")
    for start, timing, row in sorted((each for each in timed if each[0] is not None), key=lambda each: each[0] or 0.0):
        assert start is not None
        if start < until and not row.address.startswith(f"{last}/"):
            return True
        if start + timing.duration_ms > until:
            last, until = row.address, start + timing.duration_ms
    return False
