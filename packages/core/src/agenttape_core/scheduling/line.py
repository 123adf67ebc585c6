"""The line of one event loop for one session: notes deliveries while it records, and keeps their turns in a replay."""

from __future__ import annotations

import gc
from asyncio import Handle
from collections.abc import Iterator
from contextvars import Context

from agenttape_core.scheduling.abandoned import Closing
from agenttape_core.scheduling.cancellation import LoopClock, real_timer
from agenttape_core.scheduling.delivery_log import Logged
from agenttape_core.scheduling.followed_line import FollowedLine
from agenttape_core.scheduling.handles import is_idle
from agenttape_core.scheduling.held_back import let_through
from agenttape_core.scheduling.loose import BETWEEN_ANSWERS
from agenttape_core.scheduling.waiting_calls import Wait
from agenttape_core.schema import Delivery, Sender

_GRACE = 1.0
"""Seconds for which a call waits for what comes before it, beyond the time that it took: a slower machine."""
_SOON, _SELDOM = 0.001, 0.05
"""Seconds between two looks after the threads that a loop waits for: at first, and at last."""
_MOST_STEPS = 100_000
"""Steps after which a program counts as idle that makes steps for as long as an answer does not come."""
_MOST_CALLBACKS = 300_000
"""Callbacks, of whomever, after which a loop counts as idle that calls some for as long."""
_ROUNDS = 40
"""Rounds after which a loop counts as idle that does not tell."""
_NOWHERE = Context()


class Line(FollowedLine):
    """The deliveries of one event loop, for one session: in a replay, it says what the loop does next."""

    def expects_timers(self) -> bool:
        """Return True if timers of the program are to come in the recorded order, or in virtual time."""
        return self.schedule.is_virtual or (self._script is not None and self._script.expects("timer"))

    @property
    def passes_waits(self) -> bool:
        """True if the clock of the loop passes to the end of waits that nobody needs."""
        return self._follows and not self._takes_time()

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
        wait = Wait(call, sender, self.loop)
        self._came_at = self.serial
        self._waiting.add(wait)
        if not self._is_running:
            self._look_soon()
        try:
            await wait.comes()
        finally:
            self._waiting.discard(wait)
            self._together.discard(wait)

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
        if self._together or not (self._waiting or self._held or self._script is not None):
            return
        while True:
            idle = not self._follows or is_idle(self.loop)
            following = self._script.next if self._script is not None else None
            if following is None and self._script is not None and self._script.was_observed:
                following = self._next_observed()
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

    def _next_observed(self) -> Delivery | None:
        """Return what is next where an observed order is over; `None` if no other one says it.

        A handler ends an order when no run is open, as when all tasks sleep before another attempt. The line is open
        until they have ended, so what waits then goes by the order that follows: else it'd be answered as it came,
        and nothing would say so.
        """
        found = (self.schedule.script_of(wait.address, id(wait.call.crossing)) for wait in self._waiting)
        self._script = script = next(filter(None, found), self._script)
        return script.next if script is not None else None

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
        return self._log is not None or (session is not None and session.scheduler.is_paced)

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
            if not (found.call.is_opening and self._script.was_observed and self._script.comes_again()):
                self._script.pass_next()
            self._go_on()
            together = [found, *self._come_with()]
            self._together.update(together[1:])
            for wait in reversed(together):
                self._release(wait)  # each before those that were released so far
            return True
        key = following.sender, self._number_of(following)
        handle = self._held.take(key) or self._closing(*key)
        if handle is None:
            return False
        self._script.pass_next()
        self._go_on()
        let_through(handle)
        return True

    def _closing(self, sender: Sender, number: int) -> Handle | None:
        """Return what closes a generator that the program has left; `None` if it is none, or still in use."""
        if sender != "post" or not self.has_generator(number):
            return None
        if number not in self._abandoned:
            gc.collect()
        one = self._abandoned.get(number)
        return Closing(one).handle() if one is not None else None

    def _come_with(self) -> Iterator[Wait]:
        """Yield the calls that had been answered before the program made a step with the answer before: it may look."""
        script = self._script
        while script is not None and (following := script.next) is not None:
            is_at_once = following.sender == "call" and following.after == 0
            found = self._waiting.find("call", script.calls[following.which]) if is_at_once else None
            if found is None:
                return
            self._waiting.discard(found)
            script.pass_next()
            yield found

    def _number_of(self, following: Delivery) -> int:
        if following.sender == "post":
            return following.which
        return self._made(following.sender) - following.which

    def _waits_for(self, following: Delivery, *, is_due: bool) -> bool:
        """Return True if what is next can still come, and see to it that it does."""
        session = self.session()
        scheduler = session.scheduler if session is not None else None
        is_paced = scheduler is not None and scheduler.is_paced
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
        is_open = is_open or (work[0] == "post" and scheduler is not None and scheduler.threads.may_post(work[1]))
        may_be_made = self._threads.beside() or is_paced
        may_be_made = may_be_made or (scheduler is not None and scheduler.threads.may_hand_over())
        if is_open or (following.sender == "call" and not is_due and may_be_made):
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
        if self._is_free():
            self._look_after_threads(_SOON)

    def _is_free(self) -> bool:
        """Return True if no recorded order says what comes next."""
        return self._script is None

    def _look_after_threads(self, seconds: float) -> None:
        """Go on without threads that begin to wait themselves, as for what the loop is to deliver: nobody tells it."""

        def look() -> None:
            if self._patience is None or not self._is_free():
                return
            if self._threads.is_quick or self._threads_come_first():
                self._look_after_threads(min(2 * seconds, _SELDOM))
            else:
                self._go_on()
                self.advance()

        real_timer(self.loop, seconds, look)

    def _release(self, wait: Wait) -> None:
        """Let a call go on, next of all that are ready."""
        self._waiting.discard(wait)
        if self._waiting or self.works() or any(self._timers.sleeps()):
            self.schedule.note_unseen(BETWEEN_ANSWERS)
        self._steps = 0
        self._came_at = self.serial
        wait.release()
