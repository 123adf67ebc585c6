"""The line of an event loop whose order somebody chooses: see `choices`."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.scheduling.cancellation import LoopClock
from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.handles import is_idle, runs_handles
from agenttape_core.scheduling.held_back import Key, let_through
from agenttape_core.scheduling.line import Line
from agenttape_core.scheduling.scheduling import Scheduling
from agenttape_core.scheduling.waiting_calls import Wait


class ChoosingLine(Line):
    """The line of one loop in a replay in which calls are answered in a chosen order.

    What a thread posts that has been served a call for the loop waits as the call of a task does. Timers of the program
    come when no call waits, as in any replay that knows no order.

    Args:
        loop: The loop.
        schedule: The schedules of the session.
        session: The session.
        number: Its number among those of the session.
        choices: The order.

    Raises:
        ConfigurationError: If the callbacks of the loop cannot be followed.
    """

    def __init__(self, loop: Any, schedule: Scheduling, session: Any, number: int, choices: Choices) -> None:
        if not runs_handles(loop):
            raise ConfigurationError(
                f"the order of calls cannot be chosen in {type(loop).__module__}.{type(loop).__qualname__}\n"
                "  it takes an event loop of Python's own: run the program with asyncio.run, without uvloop"
            )
        super().__init__(loop, schedule, session, number)
        self._choices = choices

    @property
    def passes_waits(self) -> bool:
        """False: what is asked after such a wait is one of the calls to choose among."""
        return False

    @property
    def is_conducting(self) -> bool:
        """True if the line says what the loop does next."""
        return bool(self._waiting or self._held)

    def advance(self) -> None:
        """Let the call that is chosen go on, once the loop has nothing else to do."""
        self._is_running = False
        if not self._pending:
            self._close_if_over()
        if not (self._waiting or self._held) or not (is_idle(self.loop) or self._spins()):
            return
        if self._threads_come_first():
            self._be_patient()
            return
        self._choose()

    def _choose(self) -> None:
        """Choose among the calls that wait. Without any, timers come.

        Those of threads are listed as their work was given out: which of them comes back first is a matter of speed.
        """
        waiting: dict[int, Wait | Key] = {}
        for wait in self._waiting:
            waiting.setdefault(wait.call.crossing.found.number, wait)
        for key, handle in sorted(self._held, key=itemgetter(0)):
            served = _served_by(handle)
            if key[0] == "job" and served is not None:
                waiting.setdefault(served, key)
        numbers = list(waiting)
        if not numbers:
            self._advance_without(is_idle=True)
            return
        chosen = self._choices.choose(numbers)
        if chosen is None:
            if self._lets_time_pass():
                return
            chosen = self._choices.choose_anyway(numbers, self.schedule.note)
        self._go_on()
        found = waiting[chosen]
        if isinstance(found, Wait):
            self._release(found)
        else:
            let_through(self._held.take(found))

    def _lets_time_pass(self) -> bool:
        """Return True if a task sleeps that may make a call which others wait for; its time has passed then."""
        if (timer := self._held.take_timer()) is not None:
            let_through(timer)
            return True
        moments = [timer.when() for timer in self._timers.sleeps()]
        if moments:
            LoopClock.of(self.loop).pass_to(min(moments))
        return bool(moments)

    def _comes_later(self, handle: Any, delivery: Key) -> bool:
        if delivery[0] == "timer":
            return self.is_conducting or self._threads_come_first()
        return _served_by(handle) is not None

    def _is_free(self) -> bool:
        """Return True: the recorded order says nothing."""
        return True

    def _threads_come_first(self) -> bool:
        """Return True if threads work for the loop: they may be about to be served what could be chosen."""
        held = {key for key, _ in self._held}
        return any(made not in held for made in self._threads.in_time())


def _served_by(handle: Any) -> int | None:
    """Return the call that the thread which posted a callback was served last."""
    work = getattr(handle._callback, "work", None)  # noqa: SLF001 - no public name tells it
    return work.served if work is not None else None
