"""The order in which the control loop of an observed workflow took up what had come: it happens again on replay.

If several steps have ended at the same time, LlamaIndex takes up any of them, and the workflow's next action depends on
the choice. The ticks of an observed run say which it was.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from workflows.runtime.runtime_decorators import BaseInternalRunAdapterDecorator
from workflows.runtime.types.named_task import NamedTask, PendingStart, WorkerTask
from workflows.runtime.types.plugin import InternalRunAdapter, WaitForNextTaskResult
from workflows.runtime.types.ticks import TickStepResult, WorkflowTick

from agenttape_core import Step
from agenttape_core.integration import Session, Slot, current_session
from agenttape_core.integration.request_values import was_observed
from agenttape_core.integration.threads import comes_yet
from agenttape_llamaindex._compat import around_processing, current_span_id, ends_a_wait, scheduled
from agenttape_llamaindex.run_tree import spans_of
from agenttape_llamaindex.workflows.reading import Tick, runs_in
from agenttape_llamaindex.workflows.recording import retry_times
from agenttape_llamaindex.workflows.runtime import subject_of

_Scheduled = tuple[float, int, WorkflowTick]
"""A tick that a control loop has scheduled: the moment, a number, the tick."""
_APART = 0.001
"""The seconds between the moments at which two attempts are due: even closer moments have been distinguished."""
_ENDS_OF_WAITS = frozenset({"wakeup", "waiter_timeout"})
"""The kinds of ticks that end a wait of a step: before another attempt, or for an event that did not come in time."""
_TIMEOUT = "timeout"
"""The kind of the tick that ends a run which takes too long."""


class _Taken(NamedTuple):
    """A tick, reduced to the loop's choice."""

    kind: str  # the kind of tick
    subject: str  # the step that has ended, or the event that came
    worker: int | None  # the number of the worker of the step; `None` for another tick, or where it is not known
    waiter: str | None = None  # the name of the wait that is over; `None` for another tick, or where it is not known
    due: float | None = None  # the moment of the next attempt of a step, in seconds since the first tick

    def fits(self, other: _Taken) -> bool:
        known = zip(self[2:4], other[2:4], strict=True)
        return self[:2] == other[:2] and all(mine == its or None in {mine, its} for mine, its in known)

    def is_of(self, task: NamedTask) -> bool:
        if isinstance(task, WorkerTask):
            is_step = self.kind == "step_result" and str(task.step_id) == self.subject
            return is_step and self.worker in {None, task.worker_id}
        return self.kind not in {"step_result", _TIMEOUT, *_ENDS_OF_WAITS}


class _Order:
    """The ticks of a recorded run that are still to come. A run that does something else has none from there on."""

    def __init__(self, ticks: Iterable[Tick]) -> None:
        self._left = deque(_recorded(tick) for tick in ticks)
        dues = sorted({taken.due for taken in self._left if taken.due is not None})
        self._dues = {due: number * _APART for number, due in enumerate(dues)}
        self._first: float | None = None

    @property
    def next(self) -> _Taken | None:
        return self._left[0] if self._left else None

    def came(self, tick: WorkflowTick) -> None:
        if self._left and self._left[0].fits(_taken(tick)):
            self._left.popleft()
        else:
            self.is_over()

    def is_over(self) -> None:
        self._left.clear()

    def as_timed(self, tick: WorkflowTick) -> WorkflowTick:
        """Return the end of a step that has failed so that its next attempt is due in the recorded order.

        If several wait, the loop takes up the one that is due first, and all that are due no later.
        """
        due = self._left[0].due if self._left else None
        if due is None or not isinstance(tick, TickStepResult) or not self._left[0].fits(_taken(tick)):
            return tick
        results = [self._failed_in_time(result, self._dues[due]) for result in tick.result]
        return tick.model_copy(update={"result": results})

    def ends_next(self, waits: list[_Scheduled]) -> _Scheduled | None:
        """Return the one of the run's waits that is over now."""
        wanted = self.next
        if wanted is None or wanted.kind not in _ENDS_OF_WAITS:
            return None
        fitting = [entry for entry in waits if wanted.fits(_taken(entry[2]))]
        if wanted.due is None:
            return min(fitting, key=_moment, default=None)
        at = (self._first or 0.0) + self._dues[wanted.due]
        return min(fitting, key=lambda entry: abs(entry[0] - at), default=None)

    def _failed_in_time(self, result: Any, after: float) -> Any:
        times = retry_times(result)
        if times is None:
            return result
        self._first = sum(times) if self._first is None else self._first
        return result.model_copy(update={"failed_at": self._first + after - times[1]})


def _taken(tick: WorkflowTick) -> _Taken:
    return _Taken(tick.type, subject_of(tick), getattr(tick, "worker_id", None), getattr(tick, "waiter_id", None))


def _recorded(tick: Tick) -> _Taken:
    plain = tick.plain or {}
    return _Taken(tick.kind, tick.name, plain.get("worker_id"), plain.get("waiter_id"), tick.due)


class _OrderedAdapter(BaseInternalRunAdapterDecorator):
    """Hands out arrived ticks in a recorded order."""

    def __init__(self, decorated: InternalRunAdapter, order: _Order) -> None:
        super().__init__(decorated)
        self._order = order

    async def on_tick(self, tick: WorkflowTick) -> None:
        """Note the tick that the loop has taken up."""
        self._order.came(tick)
        await super().on_tick(tick)

    async def wait_for_next_task(
        self,
        running: list[NamedTask],
        pending: list[PendingStart],
        timeout: float | None = None,  # noqa: ASYNC109 - the framework's interface
    ) -> WaitForNextTaskResult:
        """Wait for the tick that was taken up next; for the first one to arrive, if that doesn't come."""
        wanted = self._order.next
        if wanted is None or wanted.kind == _TIMEOUT:
            return await super().wait_for_next_task(running, pending, timeout)
        started = [start.start(asyncio.create_task(start.coro)) for start in pending]
        tasks = [each.task for each in (*running, *started)]
        mine = [each.task for each in (*running, *started) if wanted.is_of(each)]
        if mine:  # even if it's done: the loop runs once here, as it does in the framework's own code
            done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if done and not any(task.done() for task in mine):
                await comes_yet(mine)  # others have arrived, so the run could continue without it
        found = next((task for task in mine if task.done()), None)
        if found is None:
            self._order.is_over()  # the loop looks again, also at what is due
        return WaitForNextTaskResult(found, started)


def _end_waits_in_turn(runner: Any, order: _Order) -> None:
    """Let the waits of the steps of a run be over in a recorded order, and not when their time has passed.

    The loop takes up due ticks after those that it has to process then, and before their results.
    """
    pop, until_next = runner.pop_due_ticks, runner.next_wakeup_timeout

    def pop_due_ticks(now: float) -> list[WorkflowTick]:
        with _held(runner, order):
            return list(pop(now))

    def next_wakeup_timeout(now: float) -> float | None:
        with _held(runner, order):
            return cast("float | None", until_next(now))

    def that_end_next() -> list[WorkflowTick]:
        with _held(runner, order) as waits:
            ended = order.ends_next(waits)
            if ended is None:
                return []
            waits.remove(ended)
            return [ended[2]]

    runner.pop_due_ticks, runner.next_wakeup_timeout = pop_due_ticks, next_wakeup_timeout
    around_processing(runner, order.as_timed, that_end_next)


@contextmanager
def _held(runner: Any, order: _Order) -> Iterator[list[_Scheduled]]:
    """Take the ends of waits that a control loop has scheduled out of its heap, as long as this is entered."""
    ticks, waits = scheduled(runner), _waits(runner) if order.next is not None else []
    ticks[:] = sorted((entry for entry in ticks if entry not in waits), key=_moment)
    try:
        yield waits
    finally:
        ticks[:] = sorted([*ticks, *waits], key=_moment)


def _waits(runner: Any) -> list[_Scheduled]:
    return sorted((entry for entry in scheduled(runner) if ends_a_wait(entry[2])), key=_moment)


def _moment(entry: _Scheduled) -> tuple[float, int]:
    return entry[:2]


_RUNS: Slot[dict[str, list[Tick]]] = Slot(
    lambda session: (
        {run.address: run.ticks for run in runs_in(step for step in session.source.steps() if isinstance(step, Step))}
        if was_observed(session)
        else {}
    )
)


def _recorded_ticks(session: Session) -> list[Tick]:
    """Return the recorded ticks of the run whose context this is."""
    runs = session.extension(_RUNS)
    span = spans_of(session).get(current_span_id() or "") if runs else None
    return runs.get(span.position.address, []) if span is not None else []


def in_recorded_order(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `run` of a control loop, so that it takes up ticks in the order of the observed run."""

    @functools.wraps(real)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = current_session()
        ticks = _recorded_ticks(session) if session is not None and not session.records else []
        if ticks:
            order = _Order(ticks)
            self.adapter = _OrderedAdapter(self.adapter, order)
            _end_waits_in_turn(self, order)
        return await real(self, *args, **kwargs)

    return run
