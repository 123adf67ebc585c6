"""The times in ticks: seconds since the run began, so that two recordings of one run do not differ in them."""

from __future__ import annotations

from typing import Any

from workflows.runtime.types.results import StepWorkerFailed
from workflows.runtime.types.ticks import TickStepResult, TickWakeup, WorkflowTick

_TIMES = frozenset({"stamped_at", "failed_at", "first_attempt_at", "last_failed_at", "due"})


def shifted(tick: Any, by: float) -> Any:
    """Return a tick as plain data with its times moved. `tick` may be a part of one; `by` is in seconds."""
    if not isinstance(tick, dict):
        return tick
    if _TIMES.isdisjoint(tick) and "result" not in tick:
        return tick
    moved = {**tick, **{key: _moved(tick[key], by) for key in tick.keys() & _TIMES}}
    if isinstance(tick.get("result"), list):
        moved["result"] = [shifted(result, by) for result in tick["result"]]
    return moved


def due_of(tick: WorkflowTick) -> float | None:
    """Return the moment of the next attempt of a step, from the tick of its failure or of its begin."""
    if isinstance(tick, TickWakeup):
        return tick.due
    results = tick.result if isinstance(tick, TickStepResult) else ()
    return next((sum(times) for times in map(retry_times, results) if times is not None), None)


def retry_times(result: Any) -> tuple[float, float] | None:
    """Return when a step has failed and the delay before its next attempt, in seconds; `None` if there's no delay."""
    decision = result.retry_decision if isinstance(result, StepWorkerFailed) else None
    return (result.failed_at, decision.delay) if decision is not None and decision.delay else None


def _moved(time: Any, by: float) -> Any:
    return round(time + by, 6) if isinstance(time, int | float) else time
