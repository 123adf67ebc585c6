"""Record the ticks of workflows, and go back to any step of a recorded one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflows import Context, Workflow
from workflows.plugins.basic import JournalRecord, basic_runtime

from agenttape_core.errors import ConfigurationError
from agenttape_llamaindex._compat import step_names
from agenttape_llamaindex.workflows.reading import (
    RecordedEvent,
    RecordedRun,
    RecordedStep,
    Tick,
    recorded_run,
    steps_of,
)
from agenttape_llamaindex.workflows.recording import RunRecord, TickRecorder, shifted
from agenttape_llamaindex.workflows.runtime import TapeRuntime, subscribe, subscribe_to_taped, unsubscribe
from agenttape_llamaindex.workflows.serializing import MISSING, ReadingSerializer
from agenttape_llamaindex.workflows.states import written_state

__all__ = [
    "RecordedEvent",
    "RecordedStep",
    "RunRecord",
    "TapeRuntime",
    "TickRecorder",
    "context_at",
    "steps_of",
    "subscribe",
    "subscribe_to_taped",
    "unsubscribe",
]


# The context of a recorded workflow after one of its steps.


def context_at(
    cassette: str | Path,
    workflow: Workflow,
    *,
    step: int | None = None,
    run: int = -1,
    state_update: Mapping[str, Any] | None = None,
) -> Context[Any]:
    """Return the context of a recorded workflow after a step; `workflow.run(ctx=...)` continues from there.

    No step function runs for that: the state is the recorded one, and the events that were on their way to the next
    steps still are.

    Args:
        cassette: The cassette: a path or a URL.
        workflow: The workflow that was recorded, or a changed one with the same steps.
        step: The number of the step, as `steps_of` counts; by default the last one.
        run: The recorded run: 0 is the first, -1 the last.
        state_update: Values of the context's store to set: edits, and objects that could not be recorded.

    Raises:
        CassetteNotFoundError: If there's no such file.
        CassetteError: If it cannot be read.
        ConfigurationError: If it has no such run or step, or one that could not be recorded whole.
    """
    found = recorded_run(cassette, run)
    ticks = _ticks(cassette, found, step)
    _check_steps(cassette, workflow, ticks)
    serializer = ReadingSerializer(workflow)
    began = time.time() - max((tick.plain.get("stamped_at", 0.0) for tick in ticks), default=0.0)
    plain = [{"type": tick.kind, **shifted(tick.plain, began)} for tick in ticks]
    records = [JournalRecord(tick.seq, json.dumps(body)) for tick, body in zip(ticks, plain, strict=True)]
    try:
        restored = basic_runtime.restore(workflow, found.snapshot, records, serializer)
        data = restored.to_dict(serializer, include_state=False)
        data["state"] = _state(cassette, ticks[-1].state, state_update or {}, serializer)
        return Context.from_dict(workflow, data, serializer=serializer)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{cassette}: the recorded run does not fit the workflow {type(workflow).__name__}: {error}"
        ) from error


def _ticks(cassette: str | Path, run: RecordedRun, step: int | None) -> list[Tick]:
    steps = run.steps()
    number = len(steps) if step is None else step
    if not 1 <= number <= len(steps):
        raise ConfigurationError(f"{cassette}: expected a step from 1 to {len(steps)}, found {number}")
    ticks = run.ticks[: steps[number - 1][1]]
    lost = next((tick for tick in ticks if tick.plain is None), None)
    if lost is not None:
        raise ConfigurationError(
            f"{cassette}: cannot go back to step {number}, as {lost.name} was not recorded: {lost.note}"
        )
    return ticks


def _check_steps(cassette: str | Path, workflow: Workflow, ticks: list[Tick]) -> None:
    unknown = sorted({tick.name for tick in ticks if tick.kind == "step_result"} - step_names(workflow))
    if unknown:
        raise ConfigurationError(
            f"{cassette}: the recorded run does not fit the workflow {type(workflow).__name__}, which has no step "
            f"{', '.join(unknown)}"
        )


def _state(cassette: str | Path, state: Any, update: Mapping[str, Any], serializer: ReadingSerializer) -> Any:
    data = state.get("state_data", {}) if isinstance(state, dict) else {}
    values = data.get("_data")
    if values is None:
        values = data.get("_whole", {}).get("value", {})
    kept = {key: item for key, item in values.items() if key not in update}
    missing = [f"{key} ({item[MISSING]})" for key, item in kept.items() if isinstance(item, dict) and MISSING in item]
    if missing:
        names = ", ".join(missing)
        raise ConfigurationError(f"{cassette}: {names} could not be recorded; give it as state_update={{...}}")
    added = {key: json.loads(serializer.serialize(item)) for key, item in update.items()}
    if "_whole" in data:
        whole = {**data["_whole"], "value": {**kept, **added}}
        return written_state({**state, "state_data": {"_whole": whole}})
    return written_state({**state, "state_data": {"_data": {**kept, **added}}})
