"""Clocks of the framework that continue while the clock of the session stands still.

The frozen clock passes while the session's own code sleeps. Two places of the framework need more than that: a control
loop of a workflow does not sleep but waits until a moment has come, and a chat store in a database sorts by moments.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from agenttape_core.integration import Slot, current_session
from agenttape_core.integration.threads import Lock, is_sleep_ordered
from agenttape_llamaindex._compat import buffered, is_at_rest, is_retry, scheduled

_STEP_NS = 1_000_000
"""The least time between two moments of a chat store, which numbers the messages of one call by nanoseconds."""


def _frozen_clock() -> Any:
    """Return what keeps the clock of the caller's session, or `None` where the clock is real."""
    session = current_session()
    frozen = session.frozen_here() if session is not None else None
    return frozen if frozen is not None and "clock" in frozen.kinds else None


# -- workflows: timeouts, waits for people, delays between two attempts -----------------------------------------------


def _now() -> float:
    """Return the time of the running loop, which may pass to its next timer on replay while a call waits."""
    return asyncio.get_running_loop().time()


class _Deadlines:
    """The moments at which the scheduled ticks of the runs in this process are due, by the clocks of their loops."""

    def __init__(self) -> None:
        self._of: weakref.WeakKeyDictionary[Any, dict[int, float]] = weakref.WeakKeyDictionary()

    def of(self, runner: Any) -> dict[int, float]:
        return self._of.setdefault(runner, {})


_deadlines = _Deadlines()


def scheduling(real: Callable[..., None]) -> Callable[..., None]:
    """Wrap `schedule_tick` of a control loop: note when the tick is really due."""

    @functools.wraps(real)
    def schedule_tick(self: Any, tick: Any, at_time: float) -> None:
        before = {number for _, number, _ in scheduled(self)}
        real(self, tick, at_time)
        frozen = _frozen_clock()
        if frozen is None:
            return
        due = _now() + max(0.0, at_time - frozen.clock)
        _deadlines.of(self).update({number: due for _, number, _ in scheduled(self) if number not in before})

    return schedule_tick


def waiting(real: Callable[..., float | None]) -> Callable[..., float | None]:
    """Wrap `next_wakeup_timeout` of a control loop: it waits by a clock that runs."""

    @functools.wraps(real)
    def next_wakeup_timeout(self: Any, now: float) -> float | None:
        frozen, waits = _frozen_clock(), _waits(self)
        if frozen is None or not waits:
            return real(self, now)
        return max(0.0, min(due for _, due in waits) - _now())

    return next_wakeup_timeout


def popping(real: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Wrap `pop_due_ticks` of a control loop: ticks due by the running clock, at the moments they were scheduled for.

    The frozen clock is moved to the latest of these moments.
    """

    @functools.wraps(real)
    def pop_due_ticks(self: Any, now: float) -> list[Any]:
        frozen = _frozen_clock()
        if frozen is None:
            return real(self, now)
        moment = _now()
        due = _that_may_come(self, [entry for entry, when in _waits(self) if when <= moment])
        if not due:
            return []
        latest, numbers = max(at for at, _, _ in due), {number for _, number, _ in due}
        if latest > frozen.clock:
            frozen.pass_time(latest - frozen.clock, since=frozen.passed)
        # The moved clock would make some ticks due too early: they stay behind until their own moment.
        early = [entry for entry in scheduled(self) if entry[1] not in numbers]
        scheduled(self)[:] = [entry for entry in scheduled(self) if entry[1] in numbers]
        ticks = real(self, frozen.clock)
        scheduled(self)[:] = sorted(early, key=lambda entry: entry[:2])
        return ticks

    return pop_due_ticks


def _that_may_come(runner: Any, due: list[Any]) -> list[Any]:
    """Return the ticks that come now, of those that are due: one retry, and only after a wait in vain for its timer.

    The timers of a program fire in the recorded order between awaited calls, and else when the program is idle. At any
    other point it would be the speed of the machine that decides whether a delay is over.
    """
    retries = [number for _, number, tick in due if is_retry(tick)]
    later = retries if buffered(runner) else retries[1:]
    return [entry for entry in due if entry[1] not in later]


def _waits(runner: Any) -> list[tuple[Any, float]]:
    """Return the scheduled ticks in their order, with the moments at which they are due.

    If the next one is a retry, it is due right away if the session skips the delays before other attempts and the run
    is idle; not if the delay is part of a recorded order, since it passes in its turn then.
    """
    deadlines = _deadlines.of(runner)
    waits = [(entry, deadlines.get(entry[1], 0.0)) for entry in sorted(scheduled(runner), key=lambda one: one[:2])]
    frozen = _frozen_clock()
    skips = frozen is not None and frozen.skips_backoff and is_at_rest(runner) and not is_sleep_ordered()
    if skips and waits and is_retry(waits[0][0][2]):
        waits[0] = waits[0][0], 0.0
    return waits


RUNNER_METHODS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "schedule_tick": scheduling,
    "next_wakeup_timeout": waiting,
    "pop_due_ticks": popping,
}
"""The methods of every control loop that are wrapped while sessions are open."""


# -- chat stores in a database ----------------------------------------------------------------------------------------


class OrderedTime(ModuleType):
    """The module `time` for code that sorts by moments: no two of them are equal within a session."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def time_ns(self) -> int:
        """Return the moment, later than any before it in the session."""
        session = current_session()
        if _frozen_clock() is None or session is None:
            return int(self._real.time_ns())
        return session.extension(_LAST_MOMENT).after(int(self._real.time_ns()))


class _LastMoment:
    def __init__(self) -> None:
        self._moment = 0
        self._lock = Lock()

    def after(self, moment: int) -> int:
        with self._lock:
            self._moment = max(moment, self._moment + _STEP_NS)
            return self._moment


_LAST_MOMENT = Slot(lambda _: _LastMoment())
