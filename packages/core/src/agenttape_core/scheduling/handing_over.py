"""A thread that puts something into an event loop goes on once the loop has come to it, and rests.

What the two do to one object follows from that: a reader in the loop sees a message of a thread before the thread gives
it an id, in each run. The thread lets others have the turn meanwhile, and passes a gate of its own afterwards; a replay
of a recording without such gates does not wait.

A loop that waits for the end of the thread lets it go. One that waits for it in another way can never rest. So the wait
ends soon where the loop comes to a lock that is taken, or its code stands still or goes on without a pause. That is
noted, as of all that is in no order. On a machine that is busy, the time for which the loop's thread waits for a
processor does not count: it could not have come.
"""

from __future__ import annotations

import _thread
import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from agenttape_core.scheduling.handles import has_steps
from agenttape_core.scheduling.holder import OwnTime
from agenttape_core.scheduling.limits import LONGEST
from agenttape_core.scheduling.strands import let_pass

WAITS_ITSELF = 0.05
"""Seconds after which a loop that waits for a lock counts as one that waits for the thread."""
_STILL = 0.5
"""Seconds after which a loop whose code stands still counts as one that waits for the thread."""
_GOES_ON = 2.0
"""Seconds for which a thread waits for a loop that goes on."""
_LOOK = 0.02
"""Seconds between two looks after the loop."""
_MOST_CALLBACKS = 10_000
"""Callbacks after which a loop counts as one that never rests."""

_acquire: Callable[..., bool] = _thread.LockType.acquire  # the real one, at which nobody takes turns

HANDED: dict[Any, list[HandedOver]] = {}
"""By loops: the things that threads have put there, and wait for."""


_joined: set[int] = set()
"""The threads whose ends loops wait for."""


class HandedOver:
    """Something that a thread has put into an event loop, and waits for.

    Args:
        line: The line of the loop.
        session: The session.
    """

    __slots__ = (
        "_count",
        "_is_led",
        "_line",
        "_over",
        "_place",
        "_session",
        "_thread",
        "is_called",
        "is_held",
        "is_taken",
    )

    def __init__(self, line: Any, session: Any) -> None:
        self._line = line
        self._session = session
        self._thread = _thread.get_ident()
        self._over = _thread.allocate_lock()
        _acquire(self._over)
        self._place: object = None
        self._count = 0
        self._is_led = True
        self.is_held = False
        """True while it has come, and waits for its turn."""
        self.is_called = False
        """True once the loop has come to it."""
        self.is_taken = False
        """True once the loop rests after that."""
        HANDED.setdefault(line.loop, []).append(self)

    def settle(self) -> None:
        """End the wait if the loop rests; called after each callback of the loop."""
        if not self.is_called:
            return
        self._count += 1
        if self._count > _MOST_CALLBACKS:
            self.let_go()
        elif not (self._is_led and self._line.holds_steps) and not has_steps(self._line.loop, self._session):
            self.is_taken = True
            self.let_go()

    def is_joined(self, thread: int) -> None:
        """End the wait of a thread whose end the loop waits for: that is an order, too."""
        if thread == self._thread:
            self.is_taken = True
            self.let_go()

    def let_go(self) -> None:
        """End the wait."""
        lines = HANDED.get(self._line.loop, [])
        if self in lines:
            lines.remove(self)
            if not lines:
                HANDED.pop(self._line.loop, None)
        let_pass(self._over)

    def wait(self, *, is_led: bool) -> bool:
        """Wait in the thread, and return whether the loop has come to it, and rests.

        Args:
            is_led: Whether the order of threads is known; else a loop that waits for a thread rests, too.
        """
        self._is_led = is_led
        if self._thread in _joined:
            self.is_joined(self._thread)
        if not _acquire(self._over, True, _LOOK):
            self._look_after(self._line.loop)
        if not self.is_taken:
            self._line.is_not_come_to()
        return self.is_taken

    def _look_after(self, loop: Any) -> None:
        """Wait on, until the loop has come to it, or will not."""
        began, passed = monotonic(), OwnTime(loop._thread_id)  # noqa: SLF001 - no public name tells it
        since = still_since = 0.0
        while True:
            now, place = passed(), _place(loop)
            if place != self._place or self.is_held:
                self._place, still_since = place, now
            if self.is_held:
                since = now
            is_over = now - still_since > _STILL or now - since > _GOES_ON or monotonic() - began > LONGEST
            if is_over or not loop.is_running():
                self.let_go()
                return
            if _acquire(self._over, True, _LOOK):
                return


@contextmanager
def joining(thread: int | None) -> Iterator[None]:
    """While inside, the caller waits for the end of a thread; if a loop does, the thread goes on.

    Args:
        thread: The identity of the thread; `None` if it has not begun.
    """
    loop = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
    if loop is None or thread is None or thread in _joined:
        yield
        return
    _joined.add(thread)
    try:
        for handed in tuple(HANDED.get(loop, ())):
            handed.is_joined(thread)
        yield
    finally:
        _joined.discard(thread)


def _place(loop: Any) -> object:
    """Return where in its Python code the thread of a loop is."""
    frame = sys._current_frames().get(loop._thread_id)  # noqa: SLF001 - the way to look at other threads
    return (id(frame), frame.f_lasti) if frame is not None else None


def settle(loop: Any) -> None:
    """End the waits of threads for a loop that rests."""
    for handed in tuple(HANDED.get(loop, ())):
        handed.settle()


def let_go_of(loop: Any) -> None:
    """End the waits of threads for a loop that waits itself."""
    for handed in tuple(HANDED.get(loop, ())):
        handed.let_go()
