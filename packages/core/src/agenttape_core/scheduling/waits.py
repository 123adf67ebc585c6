"""Waits of strands for each other: for a lock, for an item of a queue, for a time to pass.

Whoever has the turn and would have to wait for what another strand holds lets others have the turn. It comes to a gate
when that is released, and tries again once it has the turn: so who gets a lock follows from the order of the gates.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from agenttape_core.scheduling.strands import AWAY, BLOCKING, HERE, Strand


class Wait:
    """Something that a strand waits for.

    Args:
        attempt: Tries to get it, and returns whether it was to be had.
        is_ready: Returns whether it is to be had, without getting it: what C code releases is not told.
        key: The identity of the object that it is released by; 0 for none.
        seconds: The time after which the strand gives up; `None` for never.
    """

    def __init__(
        self,
        attempt: Callable[[], bool],
        is_ready: Callable[[], bool] = bool,
        key: int = 0,
        seconds: float | None = None,
    ) -> None:
        self.attempt = attempt
        self.is_ready = is_ready
        self.key = key
        self.is_told = False
        """True once it was told that this was released."""
        self.count = 0
        """The number of arrivals in the session before it."""
        self.times_ready = 0
        """The number of looks in a row that found it to be had."""
        self._until = None if seconds is None else monotonic() + seconds
        self.is_over = False
        """True once it has been given up."""
        self.is_timed = seconds is not None
        """True if it gives up at some time."""

    @property
    def left(self) -> float | None:
        """The time that is left, in seconds; `None` if it never gives up."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    def is_due(self, grace: float) -> bool:
        """Return whether its time, and a grace in seconds, has passed."""
        return self._until is not None and monotonic() >= self._until + grace

    def expire(self) -> None:
        """Let its time have passed."""
        self.is_over = True


WAITING: dict[int, dict[Strand, None]] = {}
"""The strands that wait for something to be released, by the identity of that, in the order in which they came."""


def register(strand: Strand, wait: Wait) -> None:
    """Let a strand be told when what it waits for is released."""
    if wait.key:
        WAITING.setdefault(wait.key, {})[strand] = None


def unregister(strand: Strand, wait: Wait) -> None:
    """Let it not be told any more."""
    strands = WAITING.get(wait.key)
    if strands is not None:
        strands.pop(strand, None)
        if not strands:
            WAITING.pop(wait.key, None)


def released(key: int, *, is_left_out: bool = False) -> None:
    """Tell the first strand that waits for something that it was released.

    Args:
        key: The identity of that.
        is_left_out: Whether it's work that nothing of the program waits for.
    """
    strands = WAITING.get(key)
    if not strands:
        return
    try:
        strand = next(iter(strands))
        del strands[strand]
    except (StopIteration, RuntimeError, KeyError):  # another thread was faster, or will be: it looks by itself
        return
    wait = strand.wait
    if wait is not None and wait.key == key:
        wait.is_told = True
        strand.strands.waits.told(strand, is_left_out=is_left_out)


def taking_part() -> Strand | None:
    """Return the strand of the caller, if what it waits for is part of an order."""
    strand = HERE.strand
    if strand is None or strand.is_out or HERE.is_internal or not strand.strands.is_on:
        return None
    if strand.is_loose:
        strand.strands.leave_turn(strand, BLOCKING)
        return None
    return strand


def has_waited() -> None:
    """Note that the caller's thread, which may have waited without its turn, is about to come to something."""
    strand = HERE.strand
    if strand is not None and strand.is_loose and strand.state == BLOCKING:
        strand.state = AWAY


def sleep_in_turn(real: Callable[[float], Any], seconds: float) -> None:
    """Let others have the turn while the caller's thread sleeps.

    Args:
        real: Sleeps.
        seconds: The time.
    """
    strand = taking_part()
    if strand is None or not isinstance(seconds, int | float) or not 0 <= seconds < _LONGEST:
        real(seconds)
        return
    strand.strands.waits.sleep(strand, real, seconds)


_LONGEST = 1e6
"""Seconds; no lock can be waited for much longer."""
