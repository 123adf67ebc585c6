"""The work that threads do for one event loop: the jobs of its executors, and the futures that others answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agenttape_core.scheduling.held_back import Key
from agenttape_core.scheduling.holder import is_waiting, waits_for_loop
from agenttape_core.scheduling.strands import BLOCKING, SLEEPING, Strand

BEGINS_WITH = {"job": "", "answer": "a"}
"""The sorts of work, with what stands before a number of theirs in `Scheduled.job`."""


class ThreadWork:
    """The work of threads for one loop, by its sort and its number."""

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._of_program: Counter[str] = Counter()
        self._open: dict[Key, Any] = {}
        self._slow: set[Key] = set()
        self._parked: set[Key] = set()

    def makes(self, sort: str, work: Any) -> Key:
        """Note that a piece of work begins, and return it.

        Args:
            sort: Its sort: see `BEGINS_WITH`.
            work: It: its `strand` says whether its thread waits for something else.
        """
        self._made[sort] += 1
        made: Key = ("job" if sort == "job" else "answer", self._made[sort])
        self._open[made] = work
        return made

    def counts(self, sort: str) -> str:
        """Count work of the program itself, outside of its calls, and return its number there as text."""
        self._of_program[sort] += 1
        return f"{BEGINS_WITH[sort]}{self._of_program[sort]}"

    def made(self, sort: str) -> int:
        """Return the number of pieces of work of a sort so far."""
        return self._made[sort]

    def ends(self, made: Key) -> bool:
        """Note that a piece of work is done; false if that was known."""
        self._slow.discard(made)
        return self._open.pop(made, None) is not None

    def is_open(self, made: Key) -> bool:
        """Return True if a piece of work is under way."""
        return made in self._open

    def park(self, made: Key) -> None:
        """Note that a thread waits until its work is given up, as by a timer. Thread-safe."""
        self._parked.add(made)

    def is_parked(self, made: Key) -> bool:
        """Return True if a thread waits until its work is given up."""
        return made in self._parked

    def go_on(self, made: Key) -> None:
        """Note that it does so no more. Thread-safe."""
        self._parked.discard(made)

    def beside(self, made: Key | None = None) -> tuple[Key, ...]:
        """Return what is under way, but for one."""
        return tuple(other for other in tuple(self._open) if other != made) if self._open else ()

    @property
    def is_quick(self) -> bool:
        """True if something is under way that is worth waiting for."""
        return bool(self._open) and any(True for _ in self.quick())

    def in_time(self) -> Iterator[Key]:
        """Yield what goes on and does not take too long."""
        return (made for made in self.going_on() if made not in self._slow)

    def going_on(self) -> Iterator[Key]:
        """Yield what is under way: also what waits itself, but not for what the loop is to answer."""
        for made, work in tuple(self._open.items()):
            strand = getattr(work, "strand", None)
            if strand is None or not strand.has_begun or not waits_for_loop(strand):
                yield made

    def quick(self) -> Iterator[Key]:
        """Yield what is under way that is worth waiting for: not what waits itself, nor what takes too long."""
        for made, work in tuple(self._open.items()):
            if made not in self._slow and made not in self._parked and not _waits(getattr(work, "strand", None)):
                yield made

    def is_slow(self) -> None:
        """Note that what is under way takes too long for anything to wait for it."""
        self._slow.update(self._open)


def _sleeps(strand: Strand) -> bool:
    """Return True if a thread waits for nothing but a time to pass."""
    return strand.state == SLEEPING and strand.wait is not None and not strand.wait.key


def _waits(strand: Strand | None) -> bool:
    """Return True if a thread waits for another one. One that takes no turns is looked at."""
    if strand is None or strand.strands.is_on:
        return strand is not None and strand.state in (BLOCKING, SLEEPING) and not _sleeps(strand)
    return strand.has_begun and is_waiting(strand)
