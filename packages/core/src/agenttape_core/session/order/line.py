"""The line of one event loop for one session: notes deliveries while it records, and keeps their turns in a replay."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from typing import Any
from weakref import ref

from agenttape_core.schema import Delivery, Sender, thread_number
from agenttape_core.session.order.cancellation import LoopClock, real_timer
from agenttape_core.session.order.delivery_log import DeliveryLog, Logged
from agenttape_core.session.order.handles import (
    ACTIVE,
    PROGRAM,
    TIMED,
    Posted,
    has_steps,
    is_idle,
    is_of_program,
    owner_of,
    runs_handles,
    timers_of_ours,
)
from agenttape_core.session.order.held_back import HeldBack, Key, is_let_through, let_through, was_let_through
from agenttape_core.session.order.program_timers import ProgramTimers
from agenttape_core.session.order.scheduling import Scheduling
from agenttape_core.session.order.script import Script
from agenttape_core.session.order.strands import Strand
from agenttape_core.session.order.thread_work import ThreadWork
from agenttape_core.session.order.virtual_time import virtual_time_of
from agenttape_core.session.order.waiting_calls import Wait, Waits, call_in

_GRACE = 1.0
"""Seconds for which a call waits for what comes before it, beyond the time that it took: a slower machine."""
_real_post = asyncio.BaseEventLoop.call_soon_threadsafe
_MOST_STEPS = 100_000
"""Steps after which a program counts as idle that makes steps for as long as an answer does not come."""
_MOST_CALLBACKS = 300_000
"""Callbacks, of whomever, after which a loop counts as idle that calls some for as long."""
_MOST_ROUNDS = 10_000
"""Times that a timer is put off as the program makes steps, before it counts as one that makes them without end."""
_ROUNDS = 40
"""Rounds after which a loop counts as idle that does not tell."""
_NOWHERE = Context()
_NOTHING: tuple[Any, int, int] = (None, 0, 0)


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
        self._rounds = 0
        self._asleep: list[Callable[[], object]] = []
        """Wake the jobs that wait until a time has passed in the loop: see `virtual_sleep`."""
        self._virtual = virtual_time_of(loop) if schedule.is_virtual else None
        if self._virtual is not None:
            self._virtual.hold(self)
        self._patience: asyncio.TimerHandle | None = None

    # -- what is awaited from outside --------------------------------------------------------------------------

    def begin(self, address: str, *, is_served: bool) -> None:
        """Note that a call begins."""
        self._open()
        self._has_calls = True
        is_whole = is_served and self.schedule.has_inside(address)
        if self._script is None:
            self._script = (self.schedule.script_around if is_whole else self.schedule.script_of)(address)
            if self._script is not None:
                self._script.begins_after(self._delivered)
        if is_whole and self._script is not None:
            self._script.serve_whole(address)

    def runs_through(self, address: str) -> None:
        """Note that the code of a recorded call begins to run, which `end` ends: all that it does has its turns."""
        self._open()
        self._has_calls = True
        if self._script is None:
            self._script = self.schedule.script_of(address) or self.schedule.script_around(address)
            if self._script is not None:
                self._script.begins_after(self._delivered)
        if self._script is not None:
            self._script.run_through(address)

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
            let_through(handle, first=False)

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
        """Return True if threads work for the loop that do not wait until a time has passed in it."""
        return len(self._threads.beside()) > len(self._asleep)

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
        at_once = self._follows and since == self.serial
        if self._log is not None:
            # A task that begins eagerly may end before its creator goes on, which is no step that waits in the loop.
            is_eager = at_once and self.loop.get_task_factory() is not None
            is_idle = not is_eager and self._has_no_steps()
            self._log.came(call, at_once=at_once, is_idle=is_idle, is_effect=is_effect)
        if not at_once:
            self._steps = 0

    def is_recorded_beside(self, strand: Strand) -> bool:
        """Return True if the order of a strand is recorded, and the program has something to do in the loop, too."""
        session = self.session()
        is_mine = session is not None and session.strands is strand.strands
        return is_mine and self.schedule.is_kept and has_steps(self.loop, session)

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

    # -- what the loop does ------------------------------------------------------------------------------------

    def makes_timer(self, handle: Any, owner: Any) -> None:
        """Note a timer of the program, or of the code of a call."""
        if not self._timers.made:
            TIMED.setdefault(self.loop, []).append(self)
        self._timers.add(handle)
        self._is_made(("timer", self._timers.made), owner)

    def _is_made(self, made: Key, owner: Any) -> None:
        if owner is not None:
            self._inside[made] = is_real = not owner.is_run_now
            if is_real and self._log is not None:
                self._log.makes(made, owner)

    def makes_work(self, work: Any, owner: Any) -> int:
        """Note that a thread begins to work for the program in this loop, and return the number of the work.

        Args:
            work: The work.
            owner: The call whose code begins it; `None` for the program.
        """
        sort = work.sort
        made = self._threads.makes(sort, work)
        self._is_made(made, owner)
        was_open = self._is_open
        self._open()
        if is_of_program(self.session()):  # a tool that a replay runs through makes jobs of its own
            number = self._threads.counts(sort)
            if not was_open:
                self._began_with = f"{self._number}.{number}"
                self._script = self.schedule.script_of_job(self._began_with)
        return made[1]

    def is_posted_to_beside(self) -> None:
        """Note that a thread of a thread has put something into the loop, and goes on beside others. Thread-safe.

        It comes when it did, but what the thread does afterwards to what it has put there does not.
        """
        if not self.schedule.is_kept and len(self._threads.beside()) > 1:
            self.schedule.note("threads of several tools put something into the event loop, in an order of their own")

    def is_not_come_to(self) -> None:
        """Note that a thread has waited in vain for the loop to come to what it has put there. Thread-safe."""
        if not self.schedule.is_kept:
            self.schedule.note("a thread went on before the event loop had come to what it had put there")

    def is_posted_to_by_stranger(self) -> None:
        """Note that a thread in no recorded order has put something into the loop. Thread-safe."""
        if not self.schedule.is_kept:
            self.schedule.note("a thread in no recorded order put something into the event loop, beside other things")

    @contextmanager
    def is_parked(self, number: int) -> Iterator[None]:
        """While inside, a thread that works for the loop waits until that is given up, as by a timer. Thread-safe."""
        self._threads.park(("job", number))
        try:
            yield
        finally:
            self._threads.go_on(("job", number))

    def work_is_over(self, work: Key) -> None:
        """Note that a thread has worked for the loop."""
        if self._threads.ends(work):
            self._close_one()

    def defers(self, timer: Any) -> bool:
        """Return True if a timer is due too early: nothing is awaited from outside, and the program goes on.

        It is due when the program has nothing else to do, as in every other run: else a busy machine would decide.
        """
        number = self._timers.number_of(timer)
        if number is None or self._inside.get(("timer", number)) or not has_steps(self.loop, self.session()):
            return False
        self._deferred[number] += 1
        if self._deferred[number] <= _MOST_ROUNDS:
            return True
        if not self.schedule.is_kept:
            self.schedule.note("a timer was due while the program went on without a pause")
        return False

    def holds(self, handle: Any) -> bool:
        """Return True if a callback has to wait for its turn: a timer of the program, or a post of a thread."""
        self.serial += 1
        delivery = self._delivery_of(handle)
        if delivery is None:
            if self._stalled and owner_of(handle, self.session()) is not None:
                self._stash.append(handle)
                return True
            return False
        if self._comes_later(handle, delivery) and not self._inside.get(delivery) and not is_let_through(handle):
            self._held.add(delivery, handle)
            return True
        self._delivered += delivery not in self._inside
        sender, number = delivery
        if self._log is not None:
            age = self._made(sender) - number if sender != "post" else number
            beside = self._threads.beside(delivery)
            self._log.delivered(delivery, age, is_idle=self._has_no_steps(), beside=beside)
        self._steps = 0
        return False

    def _comes_later(self, handle: Any, delivery: Key) -> bool:  # noqa: ARG002 - a line whose order is chosen looks
        """Return True if a timer or a post of a thread waits for its turn, though it has come."""
        script = self._script
        if script is None:
            is_timer = delivery[0] == "timer"
            if self._takes_time():
                return is_timer and bool(self._waiting)
            return (is_timer and bool(self._waiting or self._threads.is_quick)) or not self._has_no_steps()
        if delivery[0] in {"answer", "post"} and not script.knows(delivery[0]):
            self.schedule.note("a thread put something into the event loop that the recorded order does not have")
            return False
        return not script.knows_only_ends

    def _made(self, sender: Sender) -> int:
        return self._timers.made if sender == "timer" else self._threads.made(sender)

    def _delivery_of(self, handle: Any) -> Key | None:
        """Return the sort and the number of the timer or the thread whose delivery a callback is."""
        timer = self._timers.number_of(handle)
        if timer is not None:
            return "timer", timer
        callback = handle._callback  # noqa: SLF001 - no public name tells it
        if type(callback) is not Posted:
            return None
        if callback.work is not None and callback.work.line is self:
            return callback.work.sort, callback.work.number
        session, strand = self.session(), None if callback.is_inside else callback.strand
        if strand is not None and session is not None and strand.strands is session.strands:
            return "post", thread_number(strand.labels[0])
        return None

    def owner_of(self, handle: Any) -> Any:
        """Return the owner of a callback that the loop is about to call: see `handles.owner_of`."""
        self._is_running = True
        if was_let_through(handle) or self._timers.number_of(handle) is not None:
            return None
        return owner_of(handle, self.session())

    def has_run(self, handle: Any, owner: Any) -> None:
        """Note that the loop has called a callback of an owner."""
        self._timers.forget(handle)
        callback = handle._callback  # noqa: SLF001
        if type(callback) is Posted and callback.is_result and callback.work.line is self:
            self.work_is_over((callback.work.sort, callback.work.number))
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

    def expects_timers(self) -> bool:
        """Return True if timers of the program are to come in the recorded order."""
        return self._script is not None and self._script.expects("timer")

    @property
    def is_conducting(self) -> bool:
        """True if the line says what the loop does next."""
        return bool(self._waiting or self._held) and self._script is not None and self._script.next is not None

    def knows_end_of(self, call: Logged) -> bool:
        """Return True if the order says when a call ended that was cancelled."""
        return self._script is not None and self._script.knows_end_of(call.address)

    async def comes(self, call: Logged, sender: Sender) -> None:
        """Wait for the turn of a call; once the line is closed there are none, as for a stream that outlives it."""
        if self._is_closed:
            return
        wait = Wait(call, sender, self.loop.create_future())
        self._came_at = self.serial
        self._waiting.add(wait)
        if not self._is_running:
            self._look_soon()
        try:
            await wait.future
        finally:
            self._waiting.discard(wait)

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
            idle = idle or self._spins()
            if not is_due and not (idle and (self._waiting or self._held)):
                break
            if self._goes_on_with(following, is_due=is_due) or not (idle or self._stalled):
                return
            self.schedule.note("something was not awaited that was awaited in the recording")
            self._pass_over()

    def _spins(self) -> bool:
        """Return True if the loop will hardly become idle: the program makes steps without end, or something else."""
        return self._steps > _MOST_STEPS or self.serial - self._came_at > _MOST_CALLBACKS

    def _goes_on_with(self, following: Delivery, *, is_due: bool) -> bool:
        """Return True if what is next has been delivered, or can still come."""
        if self._threads_come_first():
            self._be_patient()
            return True
        if self._deliver(following) or self._waits_for(following, is_due=is_due):
            return True
        is_parked = self._threads.is_parked((following.sender, self._number_of(following)))
        if not (following.sender == "cancelled" or is_parked) or not self._held or not is_idle(self.loop):
            return False
        let_through(self._held.take_first())  # it was cancelled by a timer that was none in the recording
        return True

    def _threads_come_first(self) -> bool:
        """Return True if threads work for the program, and what is next must not come before what they do."""
        script = self._script
        return script is not None and script.knows_only_ends and self._threads.is_quick

    def _pass_over(self) -> None:
        if self._script is not None:
            self._script.pass_next()
        self._go_on()

    def _advance_without(self, *, is_idle: bool) -> None:
        """Deliver what is next where no order was recorded, or all of it has been kept.

        That is when the program has nothing else to do: threads come first, as they hardly take any time, then calls,
        as they take none, then timers.
        """
        if self._takes_time():
            self._advance_in_time(is_idle=is_idle)
            return
        if not (is_idle or self._spins() or (self._held and self._has_no_steps())):
            return
        handle = self._held.take_first_post()
        if handle is None and self._threads.is_quick:
            self._be_patient()
            return
        self._go_on()
        if handle is None and self._waiting:
            if is_idle or self._spins():
                self._release(self._waiting.first())
            return
        if handle is not None or self._held:
            let_through(handle or self._held.take_first())

    def _takes_time(self) -> bool:
        """Return True if calls take their time: in a session that records, or has a pace."""
        session = self.session()
        return self._log is not None or (session is not None and session.pace is not None)

    def _advance_in_time(self, *, is_idle: bool) -> None:
        """Deliver what waits where calls take their time: threads and timers come when they do."""
        if self._waiting:
            if is_idle or self._spins():
                self._release(self._waiting.first())
            return
        for handle in self._held.take_all():
            let_through(handle, first=False)

    def _deliver(self, following: Delivery) -> bool:
        """Deliver what is next, if it has come."""
        assert self._script is not None
        if following.sender in {"call", "cancelled"}:
            found = self._waiting.find(following.sender, self._script.calls[following.which])
            if found is None:
                return False
            self._script.pass_next()
            self._go_on()
            self._release(found)
            return True
        handle = self._held.take((following.sender, self._number_of(following)))
        if handle is None:
            return False
        self._script.pass_next()
        self._go_on()
        let_through(handle)
        return True

    def _number_of(self, following: Delivery) -> int:
        if following.sender == "post":
            return following.which
        return self._made(following.sender) - following.which

    def _waits_for(self, following: Delivery, *, is_due: bool) -> bool:
        """Return True if what is next can still come, and see to it that it does."""
        session = self.session()
        is_paced = session is not None and session.pace is not None
        if following.sender == "timer":
            timer = self._timers.to_come(self._number_of(following))
            if timer is not None and not is_paced:
                LoopClock.of(self.loop).pass_to(timer.when())
                self._stalled = is_due  # until the loop looks at its timers, which is when it has called what is ready
            return timer is not None
        if self._script is not None and self._script.knows_only_ends and not is_paced:
            moments = [timer.when() for timer in self._timers.sleeps()]
            if moments:  # the program makes the call when it has slept
                LoopClock.of(self.loop).pass_to(min(moments))
                return True
        work = following.sender, self._number_of(following)
        is_open = self._threads.is_open(work) and not self._threads.is_parked(work)
        is_open = is_open or (work[0] == "post" and session is not None and session.strands.may_post(work[1]))
        if is_open or (following.sender == "call" and not is_due and (self._threads.beside() or is_paced)):
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

    def _be_patient(self) -> None:
        """Wait for what is next, but not for ever: a thread may wait for what comes after it."""
        script, at = self._script, self._script.place if self._script is not None else 0
        if self._patience is not None:
            return

        def end() -> None:
            self._patience = None
            if self._script is None or self._threads_come_first():
                if not self._threads_come_first():
                    self.schedule.note("a thread had not come as far as in the recording")
                self._threads.is_slow()
                self.advance()
            elif self._script is script and script is not None and script.place == at:
                self.schedule.note("a thread had not come as far as in the recording")
                self._pass_over()
                self.advance()

        seconds = max((wait.call.crossing.seconds() for wait in self._waiting), default=0.0)
        self._patience = real_timer(self.loop, seconds + _GRACE, end)

    def _release(self, wait: Wait) -> None:
        """Let a call go on, next of all that are ready."""
        self._waiting.discard(wait)
        self._steps = 0
        self._came_at = self.serial
        wait.release()
