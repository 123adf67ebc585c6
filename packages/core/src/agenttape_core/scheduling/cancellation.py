"""The wait of a served call that was cancelled when it was recorded, until the program cancels it again.

Most of what cancels a call is a timer: `asyncio.timeout`, `wait_for`, the timeout of a workflow. A replay does not sit
it out. While a call waits to be cancelled and its event loop has nothing else to do, the clock of that loop passes to
its next timer: timers fire in their order, each followed by all that comes of it, as they would have in real time.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakSet

from agenttape_core.scheduling.handles import Looking, timers_of_ours
from agenttape_core.scheduling.holder import Lateness
from agenttape_core.scheduling.strands import trio_here

_GRACE = 1.0
"""Seconds for which a call waits to be cancelled beyond those of the recording: a slower machine; see `Lateness`."""
_RESTLESS = 10.0
"""The same in a loop that calls callbacks all the time, which may yet cancel it."""
_QUIET = 0.02
"""Seconds for which a loop has nothing to do before its clock passes to the next timer, where other threads live."""
_BUSY = 0.5
"""The same where a thread works for the loop: its result may be about to come."""
_POLL = 0.005
"""Seconds between two looks at a loop that waits for threads."""


def is_cancellation_requested() -> bool:
    """True if the cancellation that the caller handles was requested of its task.

    Otherwise the code that it called has raised a `CancelledError` of its own, such as that of a future it awaited.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


class Ending(NamedTuple):
    """The end of a recorded call that was cancelled: a served one waits as long to be cancelled again.

    Args:
        took: The seconds that the call took in the recording, until it was cancelled.
        until: The seconds after the beginning of the recording at which it was cancelled, as far as that is known.
    """

    took: float
    until: float

    @property
    def longest(self) -> float:
        """The seconds after which nothing will come any more."""
        return max(self.took, self.until) + _GRACE


async def until_cancelled(ending: Ending, *, passes_time: bool) -> None:
    """Wait until the task of the caller is cancelled. Return if nothing will do so any more.

    Args:
        ending: The time to wait.
        passes_time: Whether the clock of the loop may pass to its next timer, instead of waiting for it.
    """
    if (trio := trio_here()) is not None:
        await trio.sleep(ending.longest)
        return
    loop = asyncio.get_running_loop()
    if passes_time and isinstance(loop, asyncio.BaseEventLoop):  # others keep their timers to themselves
        await LoopClock.of(loop).wait(ending)
        return
    given_up = loop.create_future()
    with timers_of_ours():
        timer = loop.call_later(ending.longest, _resolve, given_up)
    try:
        await given_up
    finally:
        timer.cancel()


@contextmanager
def ending_after(ending: Ending, loop: asyncio.AbstractEventLoop, end: Callable[[], object]) -> Iterator[None]:
    """Call this when nothing will come any more, unless the block has ended before; see `real_timer`.

    Args:
        ending: The time for which the caller waits.
        loop: The loop of the caller.
        end: Called in the loop.
    """
    late, timers = Lateness(), list[asyncio.TimerHandle]()

    def look() -> None:
        more = 0.0 if _stands_still(loop) else late.more()
        if more:
            timers.append(real_timer(loop, more, look))
        else:
            end()

    timers.append(real_timer(loop, ending.longest, look))
    try:
        yield
    finally:
        timers[-1].cancel()


@contextmanager
def passing_time(loop: asyncio.AbstractEventLoop, ending: Ending, pool: Any) -> Iterator[None]:
    """Let the clock of a loop pass to its next timer whenever it has nothing else to do, while a thread is inside.

    Args:
        loop: The loop, of another thread.
        ending: The time for which the caller waits.
        pool: The pool whose thread the caller is: while it waits, it does no work for the loop.
    """
    if not isinstance(loop, asyncio.BaseEventLoop):  # others keep their timers to themselves
        yield
        return
    waiter = _Waiter(ending, pool=pool)
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(lambda: LoopClock.of(loop).begin(waiter))
    try:
        yield
    finally:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: LoopClock.of(loop).end(waiter))


def real_timer(loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
    """Set a timer of ours that no clock passes to. It comes early where the clock passes on to one of the program's.

    It is called in an empty context: in one of the session it would be a step of the program, which is held back while
    a thread is late, and the timer is to end just that.
    """
    with timers_of_ours():
        timer = loop.call_later(seconds, callback, context=Context())
    _real_timers.add(timer)
    return timer


_real_timers: WeakSet[asyncio.TimerHandle] = WeakSet()


def _stands_still(loop: asyncio.AbstractEventLoop) -> bool:
    return isinstance(loop.time, LoopClock) and loop.time.stands_still


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@dataclass(eq=False, slots=True)
class _Waiter:
    ending: Ending
    given_up: asyncio.Future[None] | None = None
    """Resolved when nothing will come any more; `None` for a thread, which looks after that itself."""
    pool: Any = None
    """The pool of the thread that waits."""
    works: Callable[[], bool] | None = None
    """Returns true if threads work for the loop; `None` where nobody knows."""
    late: Lateness = field(default_factory=Lateness)
    since: float = 0.0
    limit: float = 0.0

    @property
    def is_done(self) -> bool:
        return self.given_up is not None and self.given_up.done()

    def is_overdue(self, seconds: float) -> bool:
        """Return whether it waits for longer than so many seconds, as far as the machine is not busy."""
        over = monotonic() - self.since - seconds
        return over > 0 and over > self.late()


class LoopClock(Looking):
    """The clock of an event loop, ahead of the real one by what calls did not wait for. It stays with its loop.

    Args:
        loop: The loop: one of Python's own.
    """

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._real: Callable[[], float] = loop.time
        self._ahead = 0.0
        self._still: float | None = None
        """The time while it stands still: see `virtual_time`."""
        self._waiters: list[_Waiter] = []
        self._is_looking = False
        self._active_at = self._quiet_since = 0.0

    @classmethod
    def of(cls, loop: asyncio.BaseEventLoop) -> LoopClock:
        """Return the clock of a loop, put in the place of its own at first."""
        clock = vars(loop).get("time")
        if not isinstance(clock, cls):
            clock = cls(loop)
            vars(loop)["time"] = clock
        return clock

    def __call__(self) -> float:
        """Return the time of the loop."""
        return self._real() + self._ahead if self._still is None else self._still

    async def wait(self, ending: Ending) -> None:
        """Wait until the task of the caller is cancelled, or nothing will do so any more."""
        given_up = self._loop.create_future()
        waiter = _Waiter(ending, given_up)
        self.begin(waiter)
        try:
            await given_up
        finally:
            self.end(waiter)

    @contextmanager
    def passing_to(self, seconds: float, works: Callable[[], bool]) -> Iterator[None]:
        """Pass to the timers up to the end of a wait for which nobody waits, while inside.

        Args:
            seconds: The time until its end.
            works: Returns true if threads work for the loop. While none does, nothing else makes it go on.
        """
        waiter = _Waiter(Ending(seconds, seconds), works=works)
        self.begin(waiter)
        try:
            yield
        finally:
            self.end(waiter)

    def begin(self, waiter: _Waiter) -> None:
        """Begin to pass for somebody who waits."""
        waiter.since, waiter.limit = monotonic(), self() + waiter.ending.longest
        self._waiters.append(waiter)
        self._active_at = self._quiet_since = waiter.since
        if not self._is_looking:
            self._look_again()

    def end(self, waiter: _Waiter) -> None:
        """Pass for somebody no more."""
        self._waiters.remove(waiter)

    def _look_again(self, pause: float = 0.0) -> None:
        self._is_looking = True
        if pause:
            with timers_of_ours():
                self._loop.call_later(pause, self._look)
        else:
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Look at a round of the loop, before all that has become ready since the last look."""
        self._is_looking = False
        if not self._waiters:
            return
        now, is_alone, pause = monotonic(), self._is_alone(), 0.0
        # No public name tells whether anything is ready.
        if self._loop._ready:  # noqa: SLF001
            self._active_at = self._quiet_since = now
            self._gives_up(at_once=False, grace=_RESTLESS)
        elif not is_alone and now - self._active_at < _BUSY and self._is_busy():
            self._quiet_since = now
            pause = _POLL
        elif is_alone or now - self._quiet_since >= _QUIET:
            moments = self._moments()
            if self._passes_to(min(moments, default=math.inf)):
                self._active_at = self._quiet_since = now
            elif self._gives_up(at_once=is_alone and not moments):
                pause = _POLL
        self._look_again(pause)

    def _is_alone(self) -> bool:
        """True if nothing but its own timers makes this loop go on: there are no other threads, and no sockets.

        For a wait that nobody needs it suffices that no thread works for the loop.
        """
        if any(waiter.works is not None and not waiter.works() for waiter in self._waiters):
            return True
        sockets = getattr(getattr(self._loop, "_selector", None), "get_map", None)
        return threading.active_count() == 1 and sockets is not None and len(sockets()) <= 1  # one is its own

    def _moments(self) -> list[float]:
        """Return the moments at which timers are due."""
        timers = self._loop._scheduled  # noqa: SLF001 - no public name lists them
        return [timer.when() for timer in timers if not timer.cancelled() and timer not in _real_timers]

    def _passes_to(self, moment: float) -> bool:
        """Pass to a moment, if somebody waits for so long."""
        if all(moment > waiter.limit for waiter in self._waiters):
            return False
        self.pass_to(moment)
        return True

    def pass_to(self, moment: float) -> None:
        """Pass to a moment, if it has not come yet."""
        if self._still is None:
            self._ahead += max(0.0, moment - self())
        else:
            self._still = max(self._still, moment)

    @property
    def stands_still(self) -> bool:
        """True if it passes only when it is put forward."""
        return self._still is not None

    def stand_still(self) -> None:
        """Pass only when it is put forward."""
        self._still = self()

    def run_on(self) -> None:
        """Pass as real time does, from the present moment on."""
        self._ahead, self._still = self() - self._real(), None

    def _gives_up(self, *, at_once: bool, grace: float = _GRACE) -> bool:
        """End the waits that last too long; true if there are others.

        What compares another clock with its deadline goes on after a timer only when it has really waited.
        """
        for waiter in self._waiters:
            if waiter.given_up is not None and (at_once or waiter.is_overdue(waiter.ending.took + grace)):
                _resolve(waiter.given_up)
        return not all(waiter.is_done for waiter in self._waiters)

    def _is_busy(self) -> bool:
        """True if a thread of the loop's executor works, and does not wait itself."""
        executor = self._loop._default_executor  # noqa: SLF001 - an executor does not tell, and its loop does not name it
        idle = getattr(executor, "_idle_semaphore", None)
        if idle is None:
            return False
        waiting = sum(waiter.pool is executor for waiter in self._waiters)
        working: int = len(executor._threads) - idle._value  # noqa: SLF001
        return working > waiting or executor._work_queue.qsize() > 0  # noqa: SLF001
