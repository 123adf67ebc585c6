"""Virtual time: the clock of an event loop stands while anything is done, and jumps to its next timer while nothing is.

A loop asks its selector to wait until its next timer is due. Where there is neither a callback to call nor a thread to
wait for, the clock is put forward instead. So timers fire in their true order, at the moments that they were set for,
and a minute takes as long as its callbacks do: the simulated time of discrete event simulation.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import thread as pools
from time import monotonic
from typing import Any, Protocol

from agenttape_core.scheduling.cancellation import LoopClock

_BUSY = 1.0
"""Seconds for which a thread works for a loop before time passes as it does for the thread."""
_POLL = 0.02
"""Seconds between two looks at a loop that waits for threads."""
_ROUNDS = 10_000
"""Rounds of a loop that never rests after which each takes a millisecond: it waits for time to pass."""
_ROUND = 0.001


class Holder(Protocol):
    """A session, as the loop sees it whose time it holds."""

    def works(self) -> bool:
        """Return True if threads work for the loop that do not wait until a time has passed in it."""

    def is_slept_in(self) -> bool:
        """Return True if threads wait until a time has passed in the loop."""


class VirtualTime:
    """The time of one event loop, while sessions hold it.

    Args:
        loop: A loop of Python's own.
        selector: Its selector.
    """

    def __init__(self, loop: Any, selector: Any) -> None:
        self._loop = loop
        self._real = selector
        self._clock = LoopClock.of(loop)
        self._holders: list[Holder] = []
        self._restless = 0
        self._busy_since: float | None = None
        self._resting: dict[int, tuple[int, int]] = {}

    def hold(self, holder: Holder) -> None:
        """Let the loop have virtual time until the holder lets it go."""
        if not self._holders:
            self._clock.stand_still()
        self._holders.append(holder)

    @property
    def is_held(self) -> bool:
        """True while a session holds it."""
        return bool(self._holders)

    def let_go(self, holder: Holder) -> None:
        """End what `hold` began. The clock of the loop goes on from where it is."""
        self._holders.remove(holder)
        if not self._holders:
            self._clock.run_on()

    def pass_by(self, seconds: float) -> None:
        """Put the clock forward."""
        self._clock.pass_to(self._clock() + seconds)

    def select(self, timeout: float | None, pauses: Sequence[float]) -> Any:
        """Return what has become ready, as the selector of the loop does, without waiting for time to pass.

        Args:
            timeout: The time to the next timer; `None` without any.
            pauses: The seconds after which whoever waits is to look after the others.
        """
        found = self._real.select(0)
        if found or (timeout is not None and timeout <= 0):
            self._goes_round()
            return found
        self._restless = 0
        if timeout is None:
            return self._real.select(min(pauses, default=None))
        # As a loop closes, it waits for threads that it does not name.
        closes = self._loop._executor_shutdown_called  # noqa: SLF001 - no public name tells it
        if any(holder.works() for holder in self._holders) or (
            closes and not any(holder.is_slept_in() for holder in self._holders)
        ):
            return self._wait_for_threads(timeout)
        self._busy_since = None
        if self._stir() and (found := self._real.select(min(timeout, _POLL))):
            return found
        self.pass_by(timeout)
        return []

    def _goes_round(self) -> None:
        """Let time pass for a program that goes round and round until it has."""
        self._busy_since = None
        self._restless += 1
        if self._restless > _ROUNDS:
            self.pass_by(_ROUND)

    def _wait_for_threads(self, timeout: float) -> Any:
        """Wait for a thread. Once it has worked for long, its time passes for the loop as well."""
        began = monotonic()
        if self._busy_since is None:
            self._busy_since = began
        found = self._real.select(min(timeout, _POLL))
        if monotonic() - self._busy_since > _BUSY:
            self.pass_by(monotonic() - began)
        return found

    def _stir(self) -> bool:
        """Return True if others may be about to put something into the loop: sockets, or threads that are in no pool.

        A thread that stands where it stood when it was last waited for rests there.
        """
        known = pools._threads_queues  # noqa: SLF001 - no public name tells which threads are those of pools
        me, frames = threading.current_thread(), sys._current_frames()  # noqa: SLF001 - the way to look at threads
        strangers = (thread.ident for thread in threading.enumerate() if thread is not me and thread not in known)
        now = {ident: (id(frames[ident]), frames[ident].f_lasti) for ident in strangers if ident in frames}
        before, self._resting = self._resting, now
        return before != now or self._has_sockets()

    def _has_sockets(self) -> bool:
        listed = getattr(self._real, "get_map", None)
        return listed is None or len(listed()) > 1  # one is the loop's own
