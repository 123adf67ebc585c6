"""The line of one event loop for one session: notes deliveries while it records, and keeps their turns in a replay."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol
from weakref import ref

from agenttape_core.schema import Delivery, Sender
from agenttape_core.session.order.cancellation import LoopClock, real_timer
from agenttape_core.session.order.delivery_log import DeliveryLog, Folding, Logged
from agenttape_core.session.order.handles import (
    ACTIVE,
    PROGRAM,
    Posted,
    has_steps,
    is_idle,
    is_of_program,
    owner_of,
    runs_handles,
)
from agenttape_core.session.order.script import Script

_GRACE = 1.0
"""Seconds for which a call waits for what comes before it, beyond the time that it took: a slower machine."""
_WAKE_FROM_SLEEP = getattr(asyncio.futures, "_set_result_unless_cancelled", None)
_MOST_STEPS = 100_000
"""Steps after which a program counts as idle that makes steps for as long as an answer does not come."""
_ROUNDS = 40
"""Rounds after which a loop counts as idle that does not tell."""
_NOWHERE = Context()


class Scheduling(Protocol):
    """The schedules of a session, as one of its loops sees them."""

    @property
    def is_kept(self) -> bool:
        """True if the order of what is executed is recorded."""

    def script_of(self, address: str) -> Script | None:
        """Return the script of the group that a recording belongs to."""

    def script_around(self, address: str) -> Script | None:
        """Return the script of the group that calls inside of a recording belong to."""

    def has_inside(self, address: str) -> bool:
        """Return True if the recorded order has calls that were made inside of a call."""

    def script_of_job(self, job: str) -> Script | None:
        """Return the script of the group that began with a job of a thread."""

    def keep(self, folding: Folding) -> None:
        """Keep what was recorded of a loop."""

    def note(self, what: str) -> None:
        """Note that the recorded order could not be kept, and why."""


class _Wait:
    """A call that waits for its turn."""

    __slots__ = ("address", "call", "future", "sender")

    def __init__(self, call: Logged, sender: Sender, future: asyncio.Future[None]) -> None:
        self.call = call
        self.sender = sender
        self.address = call.address
        self.future = future


class Line:
    """The deliveries of one event loop, for one session.

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
        self._jobs_of_program = 0
        self.schedule = schedule
        self.serial = 0
        """The number of callbacks that the loop has called."""
        self._session = ref(session)
        self._log = DeliveryLog() if schedule.is_kept else None
        self._follows = runs_handles(loop)
        self._is_running = False
        self._pending = 0
        self._is_open = False
        """True while something is awaited from outside: see `_close_if_over`."""
        self._has_calls = False
        self._steps = 0
        self._delivered = 0
        """The deliveries of timers and threads since something was awaited from outside."""
        self._script: Script | None = None
        self._begun: Counter[str] = Counter()
        self._waiting: list[_Wait] = []
        self._held: list[Any] = []
        self._stalled = False
        """True while the program makes no step, because a thread has not come as far as in the recording."""
        self._stash: list[Any] = []
        self._timers: dict[int, tuple[int, Any]] = {}
        self._timers_made = self._jobs_made = 0
        self._jobs_open: dict[int, int] = {}
        self._slow_jobs = 0
        """The youngest job that nothing waits for any more: it takes too long."""
        self._rounds = 0
        self._patience: asyncio.TimerHandle | None = None

    # -- what is awaited from outside --------------------------------------------------------------------------

    def begin(self, address: str, *, is_served: bool) -> None:
        """Note that a call begins."""
        self._open()
        self._has_calls = True
        self._begun[address] += 1
        is_whole = is_served and self.schedule.has_inside(address)
        if self._script is None:
            self._script = (self.schedule.script_around if is_whole else self.schedule.script_of)(address)
            if self._script is not None:
                self._script.begins_after(self._delivered)
        if is_whole and self._script is not None:
            self._script.serve_whole(address)

    def runs_through(self, address: str) -> None:
        """Note that the code of a recorded call is run."""
        if self._script is not None:
            self._script.run_through(address)

    def end(self, address: str) -> None:
        """Note that a call has ended."""
        self._begun[address] -= 1
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
        if self._is_sleeping():
            return True
        return self._delivered > 0 and self._follows and has_steps(self.loop, self._session())

    def _is_sleeping(self) -> bool:
        return next(self._sleeps(), None) is not None

    def _sleeps(self) -> Iterator[Any]:
        """Yield the timers of tasks that sleep."""
        for _, weak in list(self._timers.values()):
            handle = weak()
            if handle is not None and handle._callback is _WAKE_FROM_SLEEP and not handle.cancelled():  # noqa: SLF001
                yield handle

    def _leave(self) -> None:
        """Go on without following the loop."""
        self._is_open = False
        lines = ACTIVE.get(self.loop, [])
        if self in lines:
            lines.remove(self)
            if not lines:
                del ACTIVE[self.loop]
        self._script = None
        self._begun.clear()
        self._go_on()
        held, self._held = self._held, []
        for handle in held:
            self._let_through(handle, first=False)

    def close(self) -> None:
        """End the line, and let all go on that wait."""
        log, self._log = self._log, None
        if log is not None:
            self.schedule.keep(log.close(self._began_with))
        if self._waiting or self._held or self._stash:
            _call_in(self.loop, self._end)
        elif self._is_open:
            self._leave()

    def _end(self) -> None:
        self._leave()
        waiting, self._waiting = self._waiting, []
        for wait in waiting:
            _resolve(wait.future)

    # -- recording ---------------------------------------------------------------------------------------------

    def waits(self, call: Logged) -> int:
        """Note that a call is awaited, and return the number of the callback that does."""
        if self._log is not None:
            self._log.waits(call)
        return self.serial

    def came(self, call: Logged, since: int) -> None:
        """Note that what a call waited for came.

        Args:
            call: The call.
            since: The callback in which it began to wait.
        """
        at_once = self._follows and since == self.serial
        if self._log is not None:
            # A task that begins eagerly may end before its creator goes on, which is no step that waits in the loop.
            is_eager = at_once and self.loop.get_task_factory() is not None
            self._log.came(call, at_once=at_once, is_idle=not is_eager and self._has_no_steps())
        if not at_once:
            self._steps = 0

    def _has_no_steps(self) -> bool:
        return not self._follows or not has_steps(self.loop, self._session())

    def cancelled(self, call: Logged) -> None:
        """Note that a call was cancelled while it was awaited."""
        if self._log is not None:
            self._log.cancelled(call, is_idle=self._has_no_steps())
        self._steps = 0

    # -- what the loop does ------------------------------------------------------------------------------------

    def makes_timer(self, handle: Any) -> None:
        """Note a timer of the program."""
        self._timers_made += 1
        key, number = id(handle), self._timers_made
        self._timers[key] = number, ref(handle, lambda _: self._timers.pop(key, None))

    def makes_job(self) -> int:
        """Note that a thread begins to work for the program in this loop, and return the number of the work."""
        self._jobs_made += 1
        self._jobs_open[self._jobs_made] = 1
        was_open = self._is_open
        self._open()
        if is_of_program(self._session()):  # a tool that a replay runs through makes jobs of its own
            self._jobs_of_program += 1
            if not was_open:
                self._began_with = f"{self._number}.{self._jobs_of_program}"
                self._script = self.schedule.script_of_job(self._began_with)
        return self._jobs_made

    def job_is_over(self, number: int) -> None:
        """Note that a thread has worked for the loop."""
        if self._jobs_open.pop(number, None) is not None:
            self._close_one()

    def holds(self, handle: Any) -> bool:
        """Return True if a callback has to wait for its turn: a timer of the program, or a post of a thread."""
        self.serial += 1
        delivery = self._delivery_of(handle)
        if delivery is None:
            if self._stalled and owner_of(handle, self._session()) is not None:
                self._stash.append(handle)
                return True
            return False
        script = self._script
        comes_later = not script.knows_only_ends if script else self._waiting and delivery[0] == "timer"
        if comes_later and not self._is_let_through(handle):
            self._held.append(handle)
            return True
        self._delivered += 1
        sender, number = delivery
        if self._log is not None:
            made, log = (self._timers_made, self._log.timer) if sender == "timer" else (self._jobs_made, self._log.job)
            log(made - number, is_idle=self._has_no_steps())
        self._steps = 0
        return False

    def _delivery_of(self, handle: Any) -> tuple[str, int] | None:
        """Return the sort and the number of the timer or the thread whose delivery a callback is."""
        timer = self._timers.get(id(handle))
        if timer is not None and timer[1]() is handle:
            return "timer", timer[0]
        callback = handle._callback  # noqa: SLF001 - no public name tells it
        if type(callback) is Posted and callback.work is not None and callback.work.line is self:
            return "job", callback.work.number
        return None

    def _is_let_through(self, handle: Any) -> bool:
        callback = handle._callback  # noqa: SLF001
        if type(callback) is Posted:
            return callback.is_let_through
        return id(handle) in _let_through

    def _let_through(self, handle: Any, *, first: bool = True) -> None:
        """Call a callback that was held: next, or after all that are ready."""
        callback = handle._callback  # noqa: SLF001
        if type(callback) is Posted:
            callback.is_let_through = True
        else:
            _let_through[id(handle)] = handle
        ready = self.loop._ready  # noqa: SLF001 - no public name puts a handle first
        (ready.appendleft if first else ready.append)(handle)

    def owner_of(self, handle: Any) -> Any:
        """Return the owner of a callback that the loop is about to call: see `handles.owner_of`."""
        self._is_running = True
        if id(handle) in self._timers or _let_through.pop(id(handle), None) is not None:
            return None
        return owner_of(handle, self._session())

    def has_run(self, handle: Any, owner: Any) -> None:
        """Note that the loop has called a callback of an owner."""
        self._timers.pop(id(handle), None)
        callback = handle._callback  # noqa: SLF001
        if type(callback) is Posted and callback.is_result and callback.work.line is self:
            self.job_is_over(callback.work.number)
        if (
            owner is None or not self._is_open
        ):  # it has ended what was awaited: the steps of what comes next begin later
            return
        if owner is PROGRAM:
            self._steps += 1
        elif not owner.is_of_program:
            return
        elif owner.is_run_now:
            self._steps += 1
        if self._log is not None:
            self._log.step(owner)

    # -- a replay ----------------------------------------------------------------------------------------------

    @property
    def is_conducting(self) -> bool:
        """True if the line says what the loop does next."""
        return bool(self._waiting or self._held) and self._script is not None and self._script.next is not None

    def knows_end_of(self, call: Logged) -> bool:
        """Return True if the order says when a call ended that was cancelled."""
        return self._script is not None and self._script.knows_end_of(call.address)

    async def comes(self, call: Logged, sender: Sender) -> None:
        """Wait for the turn of a call."""
        wait = _Wait(call, sender, self.loop.create_future())
        self._waiting.append(wait)
        if not self._is_running:
            self._look_soon()
        try:
            await wait.future
        finally:
            if wait in self._waiting:
                self._waiting.remove(wait)

    def _look_soon(self) -> None:
        """See to it that the line goes on, where nobody tells it that the loop has called a callback."""
        self._rounds = 0
        self.loop.call_soon(self._look, context=_NOWHERE)

    def _look(self) -> None:
        if self._follows:
            return  # the next callback has been called, which is all
        self._rounds += 1
        if self._rounds < _ROUNDS:
            self.loop.call_soon(self._look, context=_NOWHERE)
            return
        self.advance()
        if self._waiting:
            self._look_soon()

    def advance(self) -> None:
        """Deliver what is next, if it is its turn; called when the loop has called a callback."""
        self._is_running = False
        if not self._pending:
            self._close_if_over()
        if not (self._waiting or self._held or self._script is not None):
            return
        while True:
            idle = not self._follows or is_idle(self.loop)
            following = self._script.next if self._script is not None else None
            if following is None:
                self._advance_without(is_idle=idle)
                return
            is_due = following.after is not None and self._steps >= following.after
            if is_due and following.after != self._steps:
                self.schedule.note("the program made other steps between two answers than in the recording")
            idle = idle or self._steps > _MOST_STEPS
            if not is_due and not (idle and (self._waiting or self._held)):
                return
            if self._threads_come_first():
                self._be_patient()
                return
            if self._deliver(following) or self._waits_for(following, is_due=is_due):
                return
            if not idle and not self._stalled:
                return
            self.schedule.note("something was not awaited that was awaited in the recording")
            self._pass_over()

    def _threads_come_first(self) -> bool:
        """Return True if threads work for the program, and what is next must not come before what they do."""
        script = self._script
        return script is not None and script.knows_only_ends and max(self._jobs_open, default=0) > self._slow_jobs

    def _pass_over(self) -> None:
        if self._script is not None:
            self._script.pass_next()
        self._go_on()

    def _advance_without(self, *, is_idle: bool) -> None:
        """Deliver what has waited longest, where no order was recorded, or all of it has been kept."""
        if self._waiting:
            if is_idle or self._steps > _MOST_STEPS:
                self._release(self._waiting[0])
            return
        held, self._held = self._held, []
        for handle in held:
            self._let_through(handle, first=False)

    def _deliver(self, following: Delivery) -> bool:
        """Deliver what is next, if it has come."""
        assert self._script is not None
        if following.sender in {"call", "cancelled"}:
            wanted = following.sender, self._script.calls[following.which]
            found = next((wait for wait in self._waiting if (wait.sender, wait.address) == wanted), None)
            if found is None:
                return False
            self._script.pass_next()
            self._go_on()
            self._release(found)
            return True
        handle = self._held_for(following)
        if handle is None:
            return False
        self._script.pass_next()
        self._held.remove(handle)
        self._go_on()
        self._let_through(handle)
        return True

    def _held_for(self, following: Delivery) -> Any:
        number = self._number_of(following)
        wanted = following.sender, number
        return next((handle for handle in self._held if self._delivery_of(handle) == wanted), None)

    def _number_of(self, following: Delivery) -> int:
        made = self._timers_made if following.sender == "timer" else self._jobs_made
        return made - following.which

    def _waits_for(self, following: Delivery, *, is_due: bool) -> bool:
        """Return True if what is next can still come, and see to it that it does."""
        session = self._session()
        is_paced = session is not None and session.pace is not None
        if following.sender == "timer":
            timer = self._timer(self._number_of(following))
            if timer is not None and not is_paced:
                LoopClock.of(self.loop).pass_to(timer.when())
                self._stalled = is_due  # until the loop looks at its timers, which is when it has called what is ready
            return timer is not None
        if self._script is not None and self._script.knows_only_ends and not is_paced:
            moments = [handle.when() for handle in self._sleeps() if self._is_to_come(handle)]
            if moments:  # the program makes the call when it has slept
                LoopClock.of(self.loop).pass_to(min(moments))
                return True
        is_open = following.sender == "job" and self._number_of(following) in self._jobs_open
        if is_open or (following.sender == "call" and not is_due and (self._jobs_open or is_paced)):
            self._stalled = is_due
            self._be_patient()
            return True
        return False

    def _go_on(self) -> None:
        """Let the program make the steps that it was held from making."""
        self._stalled = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._stash:
            self.loop._ready.extendleft(reversed(self._stash))  # noqa: SLF001 - no public name puts a handle first
            self._stash.clear()

    def _timer(self, number: int) -> Any:
        for found, weak in list(self._timers.values()):
            handle = weak()
            if found == number and handle is not None and not handle.cancelled() and self._is_to_come(handle):
                return handle
        return None

    def _is_to_come(self, handle: Any) -> bool:
        """Return True unless a timer has fired while nobody looked; the program may still hold it then."""
        ready = tuple(self.loop._ready)  # noqa: SLF001 - no public name tells it
        return handle._scheduled or any(other is handle for other in ready)  # noqa: SLF001

    def _be_patient(self) -> None:
        """Wait for what is next, but not for ever: a thread may wait for what comes after it."""
        script, at = self._script, self._script.place if self._script is not None else 0
        if self._patience is not None:
            return

        def end() -> None:
            self._patience = None
            if self._threads_come_first():
                self._slow_jobs = max(self._jobs_open)
                self.advance()
            elif self._script is script and script is not None and script.place == at:
                self.schedule.note("a thread had not come as far as in the recording")
                self._pass_over()
                self.advance()

        seconds = max((wait.call.crossing.seconds() for wait in self._waiting), default=0.0)
        self._patience = real_timer(self.loop, seconds + _GRACE, end)

    def _release(self, wait: _Wait) -> None:
        """Let a call go on, next of all that are ready."""
        self._waiting.remove(wait)
        self._steps = 0
        if wait.future.done():
            return
        if not self._follows:
            wait.future.set_result(None)
            return
        ready = self.loop._ready  # noqa: SLF001 - no public name puts a handle first
        before = len(ready)
        wait.future.set_result(None)
        for place in range(before, len(ready)):
            handle = ready[place]
            if type(handle._callback) is not Posted:  # noqa: SLF001 - that has just come from another thread
                del ready[place]
                ready.appendleft(handle)
                return


_let_through: dict[int, Any] = {}
"""The timers that were held, and are next."""


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(None)


def _call_in(loop: Any, function: Callable[[], None]) -> None:
    """Call a function in the thread of a loop: now, if the caller is in it."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = not loop.is_running()
    if is_here or loop.is_closed():
        function()
    else:
        with suppress(RuntimeError):  # it has just been closed
            loop.call_soon_threadsafe(function)
