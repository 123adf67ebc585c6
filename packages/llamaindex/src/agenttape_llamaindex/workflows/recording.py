"""The recording of one run of a workflow while it continues: its ticks become steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from workflows.events import Event
from workflows.runtime.types.results import StepWorkerFailed
from workflows.runtime.types.ticks import TickAddEvent, TickStepResult, TickWakeup, WorkflowTick

from agenttape_core.integration import Position, Session, StepEvent, class_name, record_step
from agenttape_core.integration.codecs import NOTHING
from agenttape_llamaindex.workflows.events import EVENT, EVENT_OF_TEXT, EventWriter
from agenttape_llamaindex.workflows.states import LiveState, StateWriter
from agenttape_llamaindex.workflows.ticks import Arrival, is_arrival, tick_fields, written_name

# -- The times in ticks: seconds since the run began, so that two recordings of one run do not differ in them.

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


CHECKPOINT, INTERRUPT = "checkpoint", "interrupt"
"""The kinds of steps that ticks become: after an interrupt the run waits for an event."""
TICK = "tick"
"""The key that only the data of these steps have."""
ARRIVED = "arrived"
"""The key of the ticks before this one that only deliver a step's returned or sent event."""
ORDER = "order"
"""The key of the names of the events that were delivered before this tick, if only the order of ticks is kept."""
DUE = "due"
"""The key of the moment of the next attempt of a step, in seconds since the first tick."""
_STREAMED = (f"llama_index.core.agent.workflow.workflow_events:{EVENT_OF_TEXT}",)


@dataclass(slots=True)
class ReceivedTick:
    """A tick, as the recorders of a run receive it."""

    seq: int  # its number in the journal of the run
    tick: WorkflowTick
    name: str  # its subject: the step that has ended, or the event that came
    waits: bool  # whether the run waits for an event because of it
    outside: bool = False  # whether it is an event that the run did not send to itself
    state: LiveState | None = None  # the state of the run after it, if it may have changed
    snapshot: Any = None  # the state that the run began with, if it did not begin again


class TickRecorder(Protocol):
    """A recorder of ticks: an observer, or the sessions that record."""

    def run_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a workflow run, in whose context this is called; `None` to leave it out."""

    def could_not_record(self, error: Exception) -> object:
        """Note that a tick could not be recorded."""


class RunRecord:
    """The record that one recorder makes of one run.

    `session` returns the session that it is recorded in now; with `keeps_steps`, the events and the state are recorded,
    else the order of the ticks.
    """

    def __init__(self, session: Callable[[], Session], position: Position, *, keeps_steps: bool = True) -> None:
        self.position = position
        self.keeps_steps = keeps_steps
        self._session = session
        self._redactor = session().redactor
        self._events = EventWriter(self._redacted, self._redacted_parts)
        self._states = StateWriter(self._redacted, self._events)
        self._arrived: list[Arrival] = []
        self._names: list[str] = []
        self._published: list[int] = []
        self._lost = ""
        self._streamed: Event | None = None
        self._began: float | None = None

    def _redacted(self, plain: Any) -> Any:
        return self._redactor.value(plain)

    def _redacted_parts(self, parts: list[Any]) -> list[Any]:
        return self._redactor.chunks(parts)

    def publish(self, event: Event) -> None:
        """Keep an event that the run has written to its stream, until the step that wrote it ends."""
        if not self.keeps_steps:
            return
        is_streamed = class_name(type(event)) in _STREAMED
        if not is_streamed or type(self._streamed) is not type(event):
            self.settle()
        if is_streamed:
            self._streamed = event
        else:
            self._write_published(event)

    def settle(self) -> None:
        """Keep the event that later ones might have repeated."""
        event, self._streamed = self._streamed, None
        if event is not None:
            self._write_published(event)

    def _write_published(self, event: Event) -> None:
        """Keep an event; if it can't be written, such as one with bytes that aren't UTF-8, the next tick notes that."""
        try:
            self._published.append(self._events.refer(event)[EVENT])
        except ValueError as error:
            self._lost = f"the event {type(event).__name__} of the stream cannot be written: {error}"

    def record(self, received: ReceivedTick) -> None:
        """Record a tick: right away, or with the next one if it only delivers a step's returned or sent event.

        Raises `AgentTapeError` if it cannot be written.
        """
        session, tick = self._session(), received.tick
        self._redactor = session.redactor
        if not self.keeps_steps:
            self._write_order(session, received)
        elif is_arrival(tick) and not received.waits and not received.outside and received.snapshot is None:
            try:
                number = self._events.refer(tick.event)[EVENT]
            except ValueError:
                self._write(session, received)
            else:
                self._arrive(tick, number)
        else:
            self._write(session, received)

    def _write_order(self, session: Session, received: ReceivedTick) -> None:
        """Record that a tick came: earlier ones that don't concern a step are in the same record."""
        tick = received.tick
        self._names.append(received.name)
        if type(tick) is TickAddEvent and not received.outside:
            return
        data: dict[str, Any] = {TICK: tick.type, "seq": received.seq, ORDER: self._names[:-1] or None}
        if type(tick) is TickStepResult:
            data["value"] = {"$to": {"worker_id": tick.worker_id}}
        data[DUE] = self._due(tick)
        self._names = []
        self._record_step(session, received, data, "")

    def _arrive(self, tick: TickAddEvent, number: int) -> None:
        assert tick.emission is not None  # or it would be no arrival
        published, self._published = self._published, []
        by = written_name(tick.emission.invocation_id, self._redacted)
        self._arrived.append(Arrival(number, self._moment(tick.stamped_at), by, tick.emission.index, published))

    def _due(self, tick: WorkflowTick) -> Any:
        """Return the moment of the next attempt of a step that has failed, or of the tick that begins it.

        It distinguishes the moments that the clock has distinguished.
        """
        due = due_of(tick)
        if due is None:
            return NOTHING
        self._moment(due)  # the first one of all
        return round(due - (self._began or 0.0), 7)

    def _moment(self, stamp: float | None) -> float:
        """Return a time in seconds since the first one."""
        at = stamp or 0.0
        if self._began is None:
            self._began = at
        return round(at - self._began, 6)

    def _write(self, session: Session, received: ReceivedTick) -> None:
        data: dict[str, Any] = {TICK: received.tick.type, "seq": received.seq}
        lost, self._lost = self._lost, ""
        try:
            plain = tick_fields(received.tick, self._events.refer, self._redacted)
        except ValueError as error:
            gone = f"the tick cannot be written: {error}"
            lost, data["value"] = f"{gone}; {lost}" if lost else gone, {"$gone": True}
        else:
            self._moment(plain.get("stamped_at"))
            data["value"] = {"$to": shifted(plain, -(self._began or 0.0))}
        if received.state is not None:
            data["state"], data["left_out"] = self._states.change(received.state)
        data[DUE] = self._due(received.tick)
        if received.outside:
            data["outside"] = True
        if received.snapshot is not None:
            data["snapshot"] = self._redacted(received.snapshot)
        data[ARRIVED] = [arrival.as_plain() for arrival in self._arrived]
        data["events"] = self._events.new_events()
        data["published"], self._published, self._arrived = self._published, [], []
        self._record_step(session, received, data, lost)

    def _record_step(self, session: Session, received: ReceivedTick, data: dict[str, Any], lost: str) -> None:
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
