"""The recording of one run of a workflow while it goes on: its ticks become steps."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from workflows.events import Event
from workflows.runtime.types.ticks import WorkflowTick

from agenttape_core.integration import Position, Session, StepEvent, class_name, record_step
from agenttape_core.integration.codecs import NOTHING, changes
from agenttape_llamaindex.workflows.memories import Messages
from agenttape_llamaindex.workflows.serializing import HELD
from agenttape_llamaindex.workflows.times import shifted
from agenttape_llamaindex.workflows.writing import EVENT, EVENT_OF_TEXT, RunWriter, WrittenEvent

CHECKPOINT, INTERRUPT = "checkpoint", "interrupt"
"""The kinds of steps that ticks become: after an interrupt the run waits for an event."""
TICK = "tick"
"""The key that only the data of these steps have."""
_STREAMED = (f"llama_index.core.agent.workflow.workflow_events:{EVENT_OF_TEXT}",)

_OTHERS = 4
"""The number of events of a class that another one may be written as a change of: steps have several in a turn."""


@dataclass(slots=True)
class LiveState:
    """The state of a run after a tick.

    Args:
        envelope: The state as the framework writes it, with `HELD` and a number in the place of each value.
        values: The values that are held.
        memories: The messages of the memories among them, by the identity of the memory.
    """

    envelope: Any
    values: list[Any]
    memories: Mapping[int, Messages]


@dataclass(slots=True)
class ReceivedTick:
    """A tick, as the recorders of a run receive it.

    Args:
        seq: Its number in the journal of the run.
        tick: The tick.
        name: Its subject: the step that has ended, or the event that came.
        waits: Whether the run waits for an event because of it.
        outside: Whether it is an event that the run did not send to itself.
        state: The state of the run after it, if it may have changed.
        snapshot: The state that the run began with, if it did not begin anew.
    """

    seq: int
    tick: WorkflowTick
    name: str
    waits: bool
    outside: bool = False
    state: LiveState | None = None
    snapshot: Any = None


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
    _published: list[Any] = field(default_factory=list)
    _streamed: Event | None = None
    _before: dict[str, Any] = field(default_factory=dict)
    _events_of: dict[str, deque[tuple[int, Any]]] = field(default_factory=dict)
    _began: float | None = None
    _writer: RunWriter = field(default_factory=RunWriter)

    def publish(self, event: Event) -> None:
        """Keep an event that the run has written to its stream, until the step that wrote it ends.

        Raises:
            ValueError: If it, or the one before it, cannot be written.
        """
        is_streamed = class_name(type(event)) in _STREAMED
        if not is_streamed or type(self._streamed) is not type(event):
            self.settle()
        if is_streamed:
            self._streamed = event
        else:
            self._write_published(event)

    def settle(self) -> None:
        """Keep the event that later ones might have repeated.

        Raises:
            ValueError: If it cannot be written.
        """
        event, self._streamed = self._streamed, None
        if event is not None:
            self._write_published(event)

    def _write_published(self, event: Event) -> None:
        self._writer.use(self.session().redactor)
        self._published.append(self._writer.event(event)[EVENT])

    def record(self, received: ReceivedTick) -> None:
        """Record a tick.

        Raises:
            AgentTapeError: If it cannot be written.
        """
        session, kind = self.session(), received.tick.type
        self._writer.use(session.redactor)
        data: dict[str, Any] = {TICK: kind, "seq": received.seq}
        slot, lost = f"{kind}:{received.name}", ""
        try:
            plain = self._writer.tick(received.tick)
        except ValueError as error:
            lost, data["value"] = f"the tick cannot be written: {error}", self._lost(slot)
        else:
            if self._began is None:
                self._began = plain.get("stamped_at", 0.0)
            data["value"] = self._changed(slot, shifted(plain, -self._began))
        if received.state is not None:
            state, data["left_out"] = self._written_state(received.state)
            data["state"] = self._changed("state", state)
        if received.outside:
            data["outside"] = True
        if received.snapshot is not None:
            data["snapshot"] = session.redactor.value(received.snapshot)
        data["events"] = self._events(session)
        data["published"], self._published = self._published, []
        event = StepEvent(
            INTERRUPT if received.waits else CHECKPOINT,
            received.name,
            self.position.address,
            self.position.moment(),
            perf_counter(),
            missing=lost,
            data={key: item for key, item in data.items() if item is not NOTHING and item != []},
            is_redacted=True,
        )
        record_step(session, event)

    def _events(self, session: Session) -> list[dict[str, Any]]:
        """Return the events that were first seen since the last tick; a secret may be cut in two between them."""
        new = self._writer.new_events()
        bare = session.redactor.chunks([event.bare for event in new])
        return [self._event(event, event.whole(plain)) for event, plain in zip(new, bare, strict=True)]

    def _event(self, event: WrittenEvent, plain: Any) -> dict[str, Any]:
        """Return an event as its change since the one of its class that has most of its conversation."""
        others = self._events_of.setdefault(event.name, deque(maxlen=_OTHERS))
        of, before = max(others, key=lambda other: event.shared(plain, other[1]), default=(0, NOTHING))
        others.appendleft((event.number, plain))
        return {
            "n": event.number,
            "event": event.name,
            **({"of": of} if of else {}),
            **({} if (change := _change(before, plain)) is NOTHING else {"value": change}),
        }

    def _written_state(self, state: LiveState) -> tuple[Any, list[str]]:
        """Return a state as plain data, and the classes of its values that cannot be written."""
        envelope, values = read_state(state.envelope), state.values
        data = envelope.get("state_data") if isinstance(envelope, dict) else None
        if not isinstance(data, dict):
            return self.session().redactor.value(envelope), []
        places = data.get("_data", data)
        live = {key: values[item[HELD]] for key, item in places.items() if isinstance(item, dict) and HELD in item}
        written, left_out = self._writer.state(live, state.memories)
        within = {"_data": written} if "_data" in data else written
        return {**self.session().redactor.value({**envelope, "state_data": None}), "state_data": within}, left_out

    def _changed(self, key: str, after: Any) -> Any:
        """Return the change since the last time: a workflow passes its whole conversation from step to step."""
        before, self._before[key] = self._before.get(key, NOTHING), after
        return _change(before, after)

    def _lost(self, key: str) -> Any:
        self._before.pop(key, None)
        return {"$gone": True}


def _change(before: Any, after: Any) -> Any:
    """Return the change that makes one of the other, or all of it if that is shorter; `NOTHING` if they are equal."""
    change = NOTHING if before is NOTHING else changes(before, after)
    if before is not NOTHING and (change is NOTHING or _is_longer(after, json.dumps(change))):
        return change
    return {"$to": after}


def _is_longer(plain: Any, text: str) -> bool:
    """Return whether plain data as JSON is longer than a text; as soon as it is, the rest is not looked at."""
    left, waiting = len(text), [plain]
    while waiting and left >= 0:
        value = waiting.pop()
        if isinstance(value, dict):
            left -= 2 + sum(len(key) + 6 for key in value)
            waiting += value.values()
        elif isinstance(value, list):
            left -= 2 * len(value) + 2
            waiting += value
        else:
            left -= len(value) + 2 if isinstance(value, str) else len(str(value))
    return left < 0


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
