"""The order in which the control loop of an observed workflow took up what had come: it happens again on replay.

Of steps that have ended at the same time, LlamaIndex takes up any, and what the workflow does next depends on which.
The ticks of an observed run say which it was.
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
from agenttape_core.integration import Session, Slot, current_session, was_observed
from agenttape_llamaindex._compat import before_processing, buffered, current_span_id, is_retry, scheduled
from agenttape_llamaindex.run_tree import spans_of
from agenttape_llamaindex.workflows.reading import Tick, runs_in
from agenttape_llamaindex.workflows.runtime import subject_of
from agenttape_llamaindex.workflows.times import retry_times

_GRACE = 1.0
"""Seconds for which the loop waits for what comes next, while something else has come."""
_APART = 0.001
"""The seconds between the moments at which two attempts are due: moments that are nearer have been told apart, too."""
_RETRY = "wakeup"
"""The kind of the ticks that end the delay before another attempt."""


class _Taken(NamedTuple):
    """A tick, as far as it tells what the loop took up.

    Args:
        kind: The kind of tick.
        subject: The step that has ended, or the event that came.
        worker: The number of the worker of the step; `None` for another tick, or where it is not known.
        due: The moment of the next attempt of a step, in seconds since the first tick.
    """

    kind: str
    subject: str
    worker: int | None
    due: float | None = None

    def fits(self, other: _Taken) -> bool:
        return self[:2] == other[:2] and (None in {self.worker, other.worker} or self.worker == other.worker)

    def is_of(self, task: NamedTask) -> bool:
        if isinstance(task, WorkerTask):
            is_step = self.kind == "step_result" and str(task.step_id) == self.subject
            return is_step and self.worker in {None, task.worker_id}
        return self.kind == "add_event"


class _Order:
    """The ticks of a recorded run that are still to come. A run that does something else has none from there on.

    Args:
        ticks: The recorded ticks.
    """

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

        Of several that wait, the loop takes up the one that is due first, and all that are due no later.
        """
        due = self._left[0].due if self._left else None
        if due is None or not isinstance(tick, TickStepResult) or not self._left[0].fits(_taken(tick)):
            return tick
        results = [self._failed_in_time(result, self._dues[due]) for result in tick.result]
        return tick.model_copy(update={"result": results})

    def taken_of(self, retries: list[Any]) -> Any:
        """Return the attempt that comes next, of those that are scheduled."""
        due = self._left[0].due
        at = (self._first or 0.0) + self._dues[due] if due is not None else 0.0
        return min(retries, key=lambda entry: abs(entry[0] - at) if due is not None else _moment(entry))

    def _failed_in_time(self, result: Any, after: float) -> Any:
        times = retry_times(result)
        if times is None:
            return result
        self._first = sum(times) if self._first is None else self._first
        return result.model_copy(update={"failed_at": self._first + after - times[1]})


def _taken(tick: WorkflowTick) -> _Taken:
    return _Taken(tick.type, subject_of(tick), getattr(tick, "worker_id", None))


def _recorded(tick: Tick) -> _Taken:
    return _Taken(tick.kind, tick.name, (tick.plain or {}).get("worker_id"), tick.due)


class _OrderedAdapter(BaseInternalRunAdapterDecorator):
    """Hands out what has come in a recorded order.

    Args:
        decorated: The adapter that does the work.
        order: The order.
        waits_to_retry: Returns whether another attempt is scheduled.
    """

    def __init__(self, decorated: InternalRunAdapter, order: _Order, waits_to_retry: Callable[[], bool]) -> None:
        super().__init__(decorated)
        self._order = order
        self._waits_to_retry = waits_to_retry

    async def on_tick(self, tick: WorkflowTick) -> None:
        """Note what the loop has taken up."""
        self._order.came(tick)
        await super().on_tick(tick)

    async def wait_for_next_task(
        self,
        running: list[NamedTask],
        pending: list[PendingStart],
        timeout: float | None = None,  # noqa: ASYNC109 - the framework's interface
    ) -> WaitForNextTaskResult:
        """Wait for what was taken up next; for whatever comes first, if that does not come."""
        wanted = self._order.next
        if wanted is None:
            return await super().wait_for_next_task(running, pending, timeout)
        started = [start.start(asyncio.create_task(start.coro)) for start in pending]
        tasks = [*running, *started]
        if wanted.kind == _RETRY and self._waits_to_retry():
            return WaitForNextTaskResult(None, started)
        mine = next((each.task for each in tasks if wanted.is_of(each)), None)
        if mine is not None:
            patience = _GRACE if timeout is None else min(timeout, _GRACE)
            done, _ = await asyncio.wait({mine}, timeout=patience)
            if done:
                return WaitForNextTaskResult(mine, started)
            if any(each.task.done() for each in tasks) or self._waits_to_retry():
                self._order.is_over()
            timeout = None if timeout is None else timeout - patience
        found = await super().wait_for_next_task(tasks, [], timeout)
        return WaitForNextTaskResult(found.completed, started)


def _retry_in_turn(runner: Any, order: _Order) -> None:
    """Let the attempts of a run after the first ones come in a recorded order, and not when their delays are over."""
    pop, until_next = runner.pop_due_ticks, runner.next_wakeup_timeout

    def pop_due_ticks(now: float) -> list[WorkflowTick]:
        wanted = order.next
        if wanted is None:
            return list(pop(now))
        is_next = wanted.kind == _RETRY and not buffered(runner)  # which may hold the failure that it comes after
        with _held(runner) as retries:
            ticks = list(pop(now))
            if is_next and retries:
                taken = order.taken_of(retries)
                retries.remove(taken)
                ticks.append(taken[2])
            return ticks

    def next_wakeup_timeout(now: float) -> float | None:
        if order.next is None:
            return cast("float | None", until_next(now))
        with _held(runner):
            return cast("float | None", until_next(now))

    runner.pop_due_ticks, runner.next_wakeup_timeout = pop_due_ticks, next_wakeup_timeout


@contextmanager
def _held(runner: Any) -> Iterator[list[Any]]:
    """Take the retries that a control loop has scheduled out of its heap, as long as this is entered."""
    ticks, retries = scheduled(runner), _retries(runner)
    ticks[:] = sorted((entry for entry in ticks if not is_retry(entry[2])), key=_moment)
    try:
        yield retries
    finally:
        ticks[:] = sorted([*ticks, *retries], key=_moment)


def _retries(runner: Any) -> list[Any]:
    return sorted((entry for entry in scheduled(runner) if is_retry(entry[2])), key=_moment)


def _moment(entry: tuple[float, int, Any]) -> tuple[float, int]:
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
    """Wrap `run` of a control loop: it takes up what comes as the loop of an observed run did."""

    @functools.wraps(real)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = current_session()
        ticks = _recorded_ticks(session) if session is not None and not session.records else []
        if ticks:
            order = _Order(ticks)
            self.adapter = _OrderedAdapter(self.adapter, order, lambda: bool(_retries(self)))
            _retry_in_turn(self, order)
            before_processing(self, order.as_timed)
        return await real(self, *args, **kwargs)

    return run
