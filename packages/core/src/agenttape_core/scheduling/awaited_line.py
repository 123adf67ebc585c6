"""The awaits of a program in one event loop: their beginning and their end, and what came while a session records."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any
from weakref import ref

from agenttape_core.scheduling.abandoned import Abandoned
from agenttape_core.scheduling.delivery_log import DeliveryLog, Logged
from agenttape_core.scheduling.handles import (
    ACTIVE,
    TIMED,
    has_steps,
    runs_handles,
    timers_of_ours,
)
from agenttape_core.scheduling.held_back import HeldBack, Key, call_later_on
from agenttape_core.scheduling.program_timers import ProgramTimers
from agenttape_core.scheduling.scheduling import Scheduling
from agenttape_core.scheduling.script import Script
from agenttape_core.scheduling.strands import Strand
from agenttape_core.scheduling.thread_work import ThreadWork
from agenttape_core.scheduling.virtual_time import virtual_time_of
from agenttape_core.scheduling.waiting_calls import Wait, Waits, call_in
from agenttape_core.schema import Scheduled

_real_post = asyncio.BaseEventLoop.call_soon_threadsafe
_NOWHERE = Context()
_NOTHING: tuple[Any, int, int] = (None, 0, 0)


class AwaitedLine(ABC):
    """The awaits of a program in one event loop, from the first to the last, with a log while its session records.

    Args:
        loop: The loop.
        schedule: The schedules of the session.
        session: The session.
        number: Its number among those of the session.
    """

    def __init__(self, loop: Any, schedule: Scheduling, session: Any, number: int) -> None:
        self.loop = loop
        self._number = number
        self._began_with = ""
        """The job with which it began that something was awaited: see `Scheduled.job`."""
        self.schedule = schedule
        self.serial = 0
        """The number of callbacks that the loop has called."""
        self.session = ref(session)
        self._log = DeliveryLog() if schedule.is_kept else None
        self._follows = runs_handles(loop)
        self._is_running = False
        self._pending = 0
        self._is_closed = False
        self._is_open = False
        """True while something is awaited from outside: see `_close_if_over`."""
        self._has_calls = False
        self._steps = 0
        self._came_at = 0
        """The number of callbacks that the loop had called when something was last awaited, or delivered."""
        self._delivered = 0
        """The deliveries of the program's own timers and threads since something was awaited from outside."""
        self._looked_at = _NOTHING
        """The last callback of those among which there was no step of the program, their number, and when that was."""
        self._script: Script | None = None
        self._waiting = Waits()
        self._together: set[Wait] = set()
        """The calls that go on with one that was released before them; nothing else comes in between."""
        self._held = HeldBack()
        self._inside: dict[Key, bool] = {}
        """The timers and jobs of the code of calls, and whether that is executed for real: those come when they do."""
        self._stalled = False
        """True while the program makes no step, because a thread has not come as far as in the recording."""
        self._stash: list[Any] = []
        self._timers = ProgramTimers()
        self._deferred: Counter[int] = Counter()
        """The times that a timer was put off as the program went on."""
        self._threads = ThreadWork()
        self._posts: Counter[str] = Counter()
        """The things that strands have put into the loop, by label."""
        self._rounds = 0
        self._asleep: list[Callable[[], object]] = []
        """Wake the jobs that wait until a time has passed in the loop: see `virtual_sleep`."""
        self._virtual = virtual_time_of(loop) if schedule.is_virtual else None
        if self._virtual is not None:
            self._virtual.hold(self)
        self._patience: asyncio.TimerHandle | None = None

    # -- what is awaited from outside --------------------------------------------------------------------------

    def begin(self, address: str, group: Scheduled | None, *, is_served: bool, made: int = 0) -> None:
        """Note that a call begins.

        Args:
            address: Where its recording stands, or will stand.
            group: The recorded group that it belongs to; `None` if there is none.
            is_served: Whether it is served.
            made: As for `Script.begins`.
        """
        self._open()
        self._has_calls = True
        is_whole = is_served and self.schedule.has_inside(address)
        if self._script is None:
            around = self.schedule.script_around(address) if is_whole else None
            self._script = around if is_whole else self.schedule.script(group, address, made)
            if self._script is not None:
                self._script.begins_after(self._delivered)
                self._free_held()
        else:
            self._script.begins(address, made)
        if is_whole and self._script is not None:
            self._script.serve_whole(address)
            self._free_held()

    def runs_through(self, address: str) -> None:
        """Note that the code of a recorded call begins to run, which `end` ends: all that it does has its turns."""
        self._open()
        self._has_calls = True
        if self._script is None:
            self._script = self.schedule.script_of(address) or self.schedule.script_around(address)
            if self._script is not None:
                self._script.begins_after(self._delivered)
                self._free_held()
        if self._script is not None:
            self._script.run_through(address)

    def _free_held(self) -> None:
        """Let timers and posts of threads come that were held before an order of calls alone began.

        It has no turn for them: they'd be held until a patience ends, and all that the program makes of them with them.
        """
        if self._script is not None and self._script.knows_only_ends:
            for handle in self._held.take_all():
                call_later_on(handle)

    def end(self) -> None:
        """Note that a call has ended."""
        self._close_one()

    def _open(self) -> None:
        self._pending += 1
        if not self._is_open:
            self._is_open = True
            self._has_calls = False
            self._began_with = ""
            self._steps = self._delivered = 0
            ACTIVE.setdefault(self.loop, []).append(self)

    def _close_one(self) -> None:
        self._pending -= 1
        self._close_if_over()

    def _close_if_over(self) -> None:
        """End what has begun with the first call, or job, unless tasks go on that a call may have delayed."""
        if self._is_open and not self._pending and not (self._has_calls and self._goes_on()):
            self._leave()
            if self._log is not None:
                self.schedule.keep(self._log.close(self._began_with))

    def _goes_on(self) -> bool:
        """Return True if tasks sleep, or do so by turns, or work in threads."""
        if self._timers.is_sleeping(but=self._inside):
            return True
        return self._delivered > 0 and self._follows and has_steps(self.loop, self.session())

    def _leave(self) -> None:
        """Go on without following the loop."""
        self._is_open = False
        lines = ACTIVE.get(self.loop, [])
        if self in lines:
            lines.remove(self)
            if not lines:
                del ACTIVE[self.loop]
        self._script = None
        self._looked_at = _NOTHING
        self._go_on()
        for handle in self._held.take_all():
            call_later_on(handle)
        for one in self.takes_abandoned() if not self.loop.is_closed() else ():
            one.close(self.loop)

    def is_here(self) -> bool:
        """Return True if the loop runs in the thread of the caller."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def post(self, function: Callable[[], None]) -> None:
        """Call a function in the loop, from another thread, which delivers nothing to the program by that."""
        post = _real_post.__get__(self.loop) if self._follows else self.loop.call_soon_threadsafe
        with suppress(RuntimeError):  # the loop is closed
            post(function, context=_NOWHERE)

    def works(self) -> bool:
        """Return True if threads work for the loop that wait neither for it, nor until a time has passed in it."""
        return sum(1 for _ in self._threads.going_on()) > len(self._asleep)

    def is_slept_in(self) -> bool:
        """Return True if threads wait until a time has passed in the loop."""
        return bool(self._asleep)

    def sleeps(self, seconds: float, wake: Callable[[], object]) -> None:
        """Wake a job when a time has passed in the loop, or the line ends."""
        if self._is_closed:
            wake()
            return
        self._asleep.append(wake)
        with timers_of_ours():
            self.loop.call_later(seconds, self._wake, wake)

    def _wake(self, wake: Callable[[], object]) -> None:
        if wake in self._asleep:
            self._asleep.remove(wake)
            wake()

    def close(self) -> None:
        """End the line, and let all go on that wait."""
        if self in (timed := TIMED.get(self.loop, [])):
            timed.remove(self)
            if not timed:
                TIMED.pop(self.loop, None)
        if self._virtual is not None:
            virtual, self._virtual = self._virtual, None
            call_in(self.loop, partial(virtual.let_go, self))
        for wake in self._asleep[:]:
            wake()
        log, self._log = self._log, None
        if log is not None:
            self.schedule.keep(log.close(self._began_with))
        self._is_closed = True
        if self._waiting or self._held or self._stash or self._is_open:
            call_in(self.loop, self._end)  # in its thread, where nobody begins to wait meanwhile

    def _end(self) -> None:
        self._leave()
        for wait in self._waiting.take_all():
            wait.end()

    # -- recording ---------------------------------------------------------------------------------------------

    def waits(self, call: Logged) -> int:
        """Note that a call is awaited, and return the number of the callback that does."""
        if self._log is not None:
            self._log.waits(call)
        return self.serial

    def came(self, call: Logged, since: int, *, is_effect: bool = False) -> None:
        """Note that what a call waited for came.

        Args:
            call: The call.
            since: The callback in which it began to wait.
            is_effect: Whether it has only had an effect, and goes on.
        """
        at_once = self.is_at_once(since)
        call.came += 1
        if self._log is not None:
            # A task that begins eagerly may end before its creator goes on, which is no step that waits in the loop.
            is_eager = at_once and self.loop.get_task_factory() is not None
            is_idle = not is_eager and self._has_no_steps()
            self._log.came(call, at_once=at_once, is_idle=is_idle, is_effect=is_effect)
        if not at_once:
            self._steps = 0
            if not is_effect:
                self._delivers(call.address, call.came, call=call)

    def is_at_once(self, since: int) -> bool:
        """Return True if the loop still calls the callback in which something began to be awaited."""
        return self._follows and since == self.serial

    def is_recorded_beside(self, strand: Strand) -> bool:
        """Return True if the order of a strand is recorded, and the program has something to do in the loop, too."""
        session = self.session()
        is_mine = session is not None and session.scheduler.threads is strand.strands
        return is_mine and self.schedule.is_kept and has_steps(self.loop, session)

    def _delivers(self, key: str, number: int = 1, *, call: Logged | None = None, sender: Strand | None = None) -> None:
        """Take the turn for the loop, until it rests: see `visiting`."""
        session = self.session()
        if session is not None:
            session.scheduler.threads.delivers(self.loop, session, key, number=number, call=call, sender=sender)

    def delivers_no_more(self, call: Logged) -> None:
        """Note that a call is over."""
        if self._script is not None and self._script.was_observed and not call.is_opening:
            self._script.leave_out(call.address)
        session = self.session()
        if session is not None:
            session.scheduler.threads.delivers_no_more(call.address)
            session.scheduler.threads.delivers_no_more(f"cancelled {call.address}")

    @property
    def holds_steps(self) -> bool:
        """True while steps of the program wait for a thread that has not come as far as in the recording."""
        return bool(self._stash)

    def _has_no_steps(self) -> bool:
        """Return True if the program has nothing else to do. What was looked at before is not looked at again."""
        if not self._follows:
            return True
        ready, (last, count, serial) = self.loop._ready, self._looked_at  # noqa: SLF001 - no public name tells it
        known = count - (self.serial - serial)
        if not (0 < known <= len(ready) and ready[known - 1] is last):
            known = 0
        if has_steps(self.loop, self.session(), known):
            return False
        self._looked_at = (ready[-1], len(ready), self.serial) if ready else _NOTHING
        return True

    def cancelled(self, call: Logged) -> None:
        """Note that a call was cancelled while it was awaited."""
        if self._log is not None:
            self._log.cancelled(call, is_idle=self._has_no_steps())
        self._steps = 0
        self._delivers(f"cancelled {call.address}", call=call)

    @abstractmethod
    def takes_abandoned(self) -> list[Abandoned]:
        """Take the generators that are kept, in the order in which they began."""

    @abstractmethod
    def _go_on(self) -> None:
        """Let the program make the steps that it was held from making."""
