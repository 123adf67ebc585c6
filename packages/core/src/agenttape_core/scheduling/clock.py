"""Let the clock of an event loop jump ahead: past what a replay needn't wait for, or in virtual time.

Most of what cancels a call is a timer: `asyncio.timeout`, `wait_for`, the timeout of a workflow. A replay doesn't sit
it out. While a call waits to be cancelled again and its event loop is idle, the clock of that loop
passes to its next timer: timers fire in their order, each followed by all that comes of it, as they would have in real
time.

So they do for the waits between two attempts that a replay skips.

*Virtual time*: the clock doesn't move while anything is done, and jumps to the next timer while nothing is. A loop asks
its selector to wait until its next timer is due. Where there is neither a callback to call nor a thread to wait for,
the clock is put forward instead.

So timers fire in their true order, at the moments that they were set for, and a
minute takes as long as its callbacks do: the simulated time of discrete event simulation.
"""

from __future__ import annotations

import asyncio
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import thread as pools
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from agenttape_core.errors import ConfigurationError
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling.handles import Looking, timers_of_ours
from agenttape_core.scheduling.stalls import Lateness, frames
from agenttape_core.scheduling.thread_starts import Work, current_work

if TYPE_CHECKING:
    from agenttape_core.scheduling.loops import Room

_GRACE = 1.0
"""Seconds for which a call waits to be cancelled beyond those of the recording: a slower machine; see `Lateness`."""
RESTLESS = 10.0
"""The same in a loop that calls callbacks all the time, which may yet cancel it."""
_QUIET = 0.02
"""Seconds for which a loop is idle before its clock passes to the next timer, where other threads live."""
_BUSY = 0.5
"""The same where a thread works for the loop: its result may be about to come."""
_POLL = 0.005
"""Seconds between two looks at a loop that waits for threads."""


_WORKS = 1.0
"""Seconds for which a thread works for a loop before time passes as it does for the thread."""
_GLANCE = 0.02
"""Seconds between two looks at a loop that waits for threads."""
_ROUNDS = 10_000
"""Rounds of a loop that never rests after which each takes a millisecond: it waits for time to pass."""
_ROUND = 0.001
"""Seconds. A program that polls until a time has passed would go round for ever if its clock never moved."""


_LOOK = 1.0
"""Seconds between two looks of a thread at its loop, which may have ended."""
_MOST_LOOKS = 30
"""Looks after which a loop counts as one that waits for the thread that waits for it."""


class Ending(NamedTuple):
    """The end of a recorded call that was cancelled: a replayed one waits as long to be cancelled again.

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


def resolve(future: asyncio.Future[None]) -> None:
    """Let a future be done, unless it is."""
    if not future.done():
        future.set_result(None)


@dataclass(eq=False, repr=False, slots=True)
class Waiter:
    """A call that waits until its program cancels it, or a wait that a replay skips.

    Args:
        ending: The time for which it waits at most.
        over: Resolved when nothing will come any more; `None` for a thread, which looks after that itself.
        pool: The pool of the thread that waits.
        works: Returns true if threads work for the loop; `None` if that isn't known.
    """

    ending: Ending
    over: asyncio.Future[None] | None = None
    pool: Any = None
    works: Callable[[], bool] | None = None
    late: Lateness = field(default_factory=Lateness)
    since: float = 0.0
    limit: float = 0.0

    @property
    def is_done(self) -> bool:
        """True once nothing will come any more."""
        return self.over is not None and self.over.done()

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
        """The time while it doesn't move: see `VirtualTime`."""
        self._waiters: list[Waiter] = []
        self._is_looking = False
        self._active_at = self._quiet_since = 0.0

    @classmethod
    def of(cls, loop: asyncio.BaseEventLoop) -> LoopClock:
        """Return the clock of a loop, which replaces its own at the first call."""
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
        over = self._loop.create_future()
        waiter = Waiter(ending, over)
        self.begin(waiter)
        try:
            await over
        finally:
            self.end(waiter)

    @contextmanager
    def passing_to(self, seconds: float, works: Callable[[], bool]) -> Iterator[None]:
        """Pass to the timers up to the end of a wait that a replay skips, while inside.

        Args:
            seconds: The time until its end.
            works: Returns true if threads work for the loop. While none does, nothing else makes it continue.
        """
        waiter = Waiter(Ending(seconds, seconds), works=works)
        self.begin(waiter)
        try:
            yield
        finally:
            self.end(waiter)

    def begin(self, waiter: Waiter) -> None:
        """Begin to pass for a waiter."""
        waiter.since, waiter.limit = monotonic(), self() + waiter.ending.longest
        self._waiters.append(waiter)
        self._active_at = self._quiet_since = waiter.since
        if not self._is_looking:
            self._look_again()

    def end(self, waiter: Waiter) -> None:
        """Pass for a waiter no more."""
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
        # A thread puts its result here before it rests: so the look at the thread comes first.
        is_busy = not is_alone and now - self._active_at < _BUSY and self._is_busy()
        # No public name tells whether anything is ready.
        if self._loop._ready:  # noqa: SLF001
            self._active_at = self._quiet_since = now
            self._ends_waits(at_once=False, grace=RESTLESS)
        elif is_busy:
            self._quiet_since = now
            pause = _POLL
        elif is_alone or now - self._quiet_since >= _QUIET:
            moments = self._moments()
            if self._passes_to(min(moments, default=math.inf)):
                self._active_at = self._quiet_since = now
            elif self._ends_waits(at_once=is_alone and not moments):
                pause = _POLL
        self._look_again(pause)

    def _is_alone(self) -> bool:
        """True if nothing but its own timers makes this loop continue: there are no other threads, and no sockets.

        For a wait that a replay skips it suffices that no thread works for the loop.
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
        """Pass to a moment, if a waiter waits for so long."""
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

    def _ends_waits(self, *, at_once: bool, grace: float = _GRACE) -> bool:
        """End the waits that last too long; true if there are others.

        What compares another clock with its deadline continues after a timer only when it has really waited.
        """
        for waiter in self._waiters:
            if waiter.over is not None and (at_once or waiter.is_overdue(waiter.ending.took + grace)):
                resolve(waiter.over)
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


_WAKE = cast("Any", asyncio.futures)._set_result_unless_cancelled  # noqa: SLF001 - by this callback a timer is known for one of a task that sleeps


async def pass_to_end(loop: Any, seconds: float, works: Callable[[], bool]) -> None:
    """Sleep in no time, by a timer as `asyncio.sleep` sets one.

    Args:
        loop: The loop that runs here.
        seconds: The time for which the task would sleep.
        works: Returns true if threads work for the loop.
    """
    woken = loop.create_future()
    timer = loop.call_later(seconds, _WAKE, woken, None)
    try:
        with LoopClock.of(loop).passing_to(seconds, works):
            await woken
    finally:
        timer.cancel()


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
        self._holders: list[Room] = []
        self._restless = 0
        self._busy_since: float | None = None
        self._resting: dict[int, tuple[int, int]] = {}

    def hold(self, holder: Room) -> None:
        """Let the loop have virtual time until the holder lets it go."""
        if not self._holders:
            self._clock.stand_still()
        self._holders.append(holder)

    @property
    def is_held(self) -> bool:
        """True while a session holds it."""
        return bool(self._holders)

    def let_go(self, holder: Room) -> None:
        """End what `hold` began. The clock of the loop continues from where it is."""
        self._holders.remove(holder)
        if not self._holders:
            self._clock.run_on()

    def pass_by(self, seconds: float) -> None:
        """Put the clock forward."""
        self._clock.pass_to(self._clock() + seconds)

    def select(self, timeout: float | None, pauses: Sequence[float]) -> Any:
        """Return the ready events, as the selector of the loop does, without waiting for time to pass.

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
        if self._stir() and (found := self._real.select(min(timeout, _GLANCE))):
            return found
        # A thread puts something here before it rests: it may have done both since the first look.
        if (found := self._real.select(0)) or self._loop._ready:  # noqa: SLF001 - no public name tells it
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
        found = self._real.select(min(timeout, _GLANCE))
        if monotonic() - self._busy_since > _WORKS:
            self.pass_by(min(timeout, monotonic() - began))
        return found

    def _stir(self) -> bool:
        """Return True if others may be about to put something into the loop: sockets, or threads that are in no pool.

        A thread that is where it was when it was last waited for rests there.
        """
        known = pools._threads_queues  # noqa: SLF001 - no public name tells which threads are those of pools
        me, at = threading.current_thread(), frames()
        strangers = (thread.ident for thread in threading.enumerate() if thread is not me and thread not in known)
        now = {ident: (id(at[ident]), at[ident].f_lasti) for ident in strangers if ident in at}
        before, self._resting = self._resting, now
        return before != now or self._has_sockets()

    def _has_sockets(self) -> bool:
        listed = getattr(self._real, "get_map", None)
        return listed is None or len(listed()) > 1  # one is the loop's own


def virtual_loop() -> Any:
    """Return the event loop whose time passes for the caller.

    Raises:
        ConfigurationError: If there is none.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return _work().room.loop


def sleep_in_virtual_time(seconds: float) -> None:
    """Let time pass for code that isn't a coroutine.

    Args:
        seconds: The time.

    Raises:
        ConfigurationError: If the caller neither runs in a loop nor works for one, or the loop waits for the caller.
    """
    try:
        loop: Any = asyncio.get_running_loop()
    except RuntimeError:
        _sleep_in_thread(_work(), seconds)
    else:
        LoopClock.of(loop).pass_to(loop.time() + seconds)


def _work() -> Work:
    """Return the work that an event loop waits for, and that the thread of the caller does."""
    work = current_work()
    found = next((one for one in work.outwards() if one.room is not None), None) if work is not None else None
    if found is None or found is not work:
        raise ConfigurationError(
            "pace='virtual': a call was replayed in a thread that no event loop waits for, so its time can't be held\n"
            "  run the program in an event loop (ainvoke, astream), or leave pace out"
        )
    return found


def _sleep_in_thread(work: Work, seconds: float) -> None:
    room, woken = work.room, threading.Event()

    def begins(comes: Callable[[], None]) -> None:
        def wake() -> None:
            comes()
            woken.set()

        room.post(functools.partial(room.sleeps, seconds, wake))

    with room.owner.threads.sleeping(begins):
        for _ in range(_MOST_LOOKS):
            if woken.wait(_LOOK) or not room.loop.is_running():
                return
    raise ConfigurationError(
        "pace='virtual': an event loop waits for a thread that waits for its time to pass, so that cannot be held\n"
        "  let the loop continue while the thread works (await asyncio.to_thread), or leave pace out"
    )
