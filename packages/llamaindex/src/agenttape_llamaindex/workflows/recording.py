"""The recording of one run of a workflow while it goes on: its ticks become steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from agenttape_core.integration import Position, Session, StepEvent, record_step
from agenttape_core.integration.codecs import NOTHING, changes
from agenttape_llamaindex.workflows.times import shifted

CHECKPOINT, INTERRUPT = "checkpoint", "interrupt"
"""The kinds of steps that ticks become: after an interrupt the run waits for an event."""
TICK = "tick"
"""The key that only the data of these steps have."""
_STREAMED = ("llama_index.core.agent.workflow.workflow_events.AgentStream",)
"""Events that repeat the one before: of several in a row the last holds everything."""


@dataclass(slots=True)
class ReceivedTick:
    """A tick, as the recorders of a run receive it.

    Args:
        seq: Its number in the journal of the run.
        kind: The kind of tick, in the words of the runtime.
        name: Its subject: the step that has ended, or the event that came.
        waits: Whether the run waits for an event because of it.
        outside: Whether it is an event that the run did not send to itself.
        tick: The tick as plain data.
        state: The state of the run after it, if it may have changed.
        snapshot: The state that the run began with, if it did not begin anew.
        left_out: The classes of the values in the state that could not be written.
        lost: The reason why the tick could not be written.
    """

    seq: int
    kind: str
    name: str
    waits: bool
    outside: bool = False
    tick: Any = None
    state: Any = None
    snapshot: Any = None
    left_out: list[str] = field(default_factory=list)
    lost: str = ""


class TickRecorder(Protocol):
    """A recorder of ticks: an observer, or the sessions that record."""

    def run_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a workflow run, in whose context this is called; `None` to leave it out."""

    def could_not_record(self, error: Exception) -> object:
        """Note that a tick could not be recorded."""


@dataclass(slots=True)
class RunRecord:
    """The record that one recorder makes of one run.

    Args:
        session: Returns the session that it is recorded in now.
        position: The position of the run.
    """

    session: Callable[[], Session]
    position: Position
    published: list[Any] = field(default_factory=list)
    _before: dict[str, Any] = field(default_factory=dict)
    _began: float | None = None

    def publish(self, event: Any) -> None:
        """Keep an event that the run has written to its stream, until the step that wrote it ends."""
        name = event.get("qualified_name") if isinstance(event, dict) else None
        if name in _STREAMED and self.published and self.published[-1].get("qualified_name") == name:
            self.published.pop()
        self.published.append(event)

    def record(self, received: ReceivedTick) -> None:
        """Record a tick.

        Raises:
            AgentTapeError: If it cannot be written.
        """
        session = self.session()
        redact = session.redactor
        data: dict[str, Any] = {TICK: received.kind, "seq": received.seq}
        if self._began is None:
            self._began = (received.tick or {}).get("stamped_at", 0.0)
        slot = f"{received.kind}:{received.name}"
        # Redacted before it is compared: a secret must not be cut in two.
        data["value"] = (
            self._changed(slot, redact.value(shifted(received.tick, -self._began)))
            if received.tick is not None
            else self._lost(slot)
        )
        if received.state is not None:
            data["state"] = self._changed("state", redact.value(received.state))
        if received.left_out:
            data["left_out"] = received.left_out
        if received.outside:
            data["outside"] = True
        if received.snapshot is not None:
            data["snapshot"] = redact.value(received.snapshot)
        if self.published:
            events = redact.chunks([redact.value(event) for event in self.published])
            data["published"] = [self._published(event) for event in events]
            self.published = []
        event = StepEvent(
            INTERRUPT if received.waits else CHECKPOINT,
            received.name,
            self.position.address,
            self.position.moment(),
            perf_counter(),
            missing=received.lost,
            data={key: item for key, item in data.items() if item is not NOTHING},
        )
        record_step(session, event)

    def _changed(self, key: str, after: Any) -> Any:
        """Return the change since the last time: a workflow passes its whole conversation from step to step."""
        before, self._before[key] = self._before.get(key, NOTHING), after
        change = NOTHING if before is NOTHING else changes(before, after)
        if before is not NOTHING and (change is NOTHING or len(json.dumps(change)) < len(json.dumps(after))):
            return change
        return {"$to": after}

    def _published(self, event: Any) -> dict[str, Any]:
        name = str(event.get("qualified_name"))
        change = self._changed(f"published:{name}", event)
        return {"event": name, **({} if change is NOTHING else {"value": change})}

    def _lost(self, key: str) -> Any:
        self._before.pop(key, None)
        return {"$gone": True}


def read_state(payload: Any) -> Any:
    """Return a state with its values as data; the framework writes them as JSON inside of strings."""
    if not isinstance(payload, dict) or "state_data" not in payload:
        return payload
    data = payload["state_data"]
    if isinstance(data, dict) and isinstance(data.get("_data"), dict):
        return {**payload, "state_data": {"_data": {key: json.loads(text) for key, text in data["_data"].items()}}}
    return {**payload, "state_data": {"_whole": json.loads(data)}} if isinstance(data, str) else payload


def written_state(plain: Any) -> Any:
    """Return a state as the framework reads it: the inverse of `read_state`."""
    if not isinstance(plain, dict) or not isinstance(plain.get("state_data"), dict):
        return plain
    data = plain["state_data"]
    if "_whole" in data:
        return {**plain, "state_data": json.dumps(data["_whole"])}
    return {**plain, "state_data": {"_data": {key: json.dumps(item) for key, item in data["_data"].items()}}}
