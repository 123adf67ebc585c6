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
from workflows.runtime.types.ticks import WorkflowTick

from agenttape_core import Step
from agenttape_core.integration import Session, Slot, current_session, was_observed
from agenttape_llamaindex._compat import buffered, current_span_id, is_retry, scheduled
from agenttape_llamaindex.run_tree import spans_of
from agenttape_llamaindex.workflows.reading import Tick, runs_in
from agenttape_llamaindex.workflows.runtime import subject_of

_GRACE = 1.0
"""Seconds for which the loop waits for what comes next, while something else has come."""


_RETRY = "wakeup"
"""The kind of the ticks that end the delay before another attempt."""


class _Taken(NamedTuple):
    """A tick, as far as it tells what the loop took up.

    Args:
        kind: The kind of tick.
        subject: The step that has ended, or the event that came.
        worker: The number of the worker of the step; `None` for another tick, or where it is not known.
    """

    kind: str
    subject: str
    worker: int | None

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
        self._left = deque(_Taken(tick.kind, tick.name, (tick.plain or {}).get("worker_id")) for tick in ticks)

    @property
    def next(self) -> _Taken | None:
        return self._left[0] if self._left else None

    def came(self, tick: WorkflowTick) -> None:
        taken = _Taken(tick.type, subject_of(tick), getattr(tick, "worker_id", None))
        if self._left and self._left[0].fits(taken):
            self._left.popleft()
        else:
            self.is_over()

    def is_over(self) -> None:
        self._left.clear()

    def is_retry_next(self, buffered: int) -> bool | None:
        """Return whether another attempt comes after so many ticks; `None` if that is not known."""
        if not self._left:
            return None
        return len(self._left) > buffered and self._left[buffered].kind == _RETRY


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
        is_next = order.is_retry_next(buffered(runner))
        if is_next is None:
            return list(pop(now))
        with _held(runner) as retries:
            ticks = list(pop(now))
            return [*ticks, retries.pop(0)[2]] if is_next and retries else ticks

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
        return await real(self, *args, **kwargs)

    return run
