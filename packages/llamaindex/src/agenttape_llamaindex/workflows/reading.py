"""The steps of recorded workflows, read from the ticks in a cassette."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agenttape_core import Step, open_cassette
from agenttape_core.errors import ConfigurationError, UnreadableValueError
from agenttape_core.integration.codecs import NOTHING, changed
from agenttape_llamaindex.workflows.events import EVENT
from agenttape_llamaindex.workflows.recording import ARRIVED, DUE, INTERRUPT, ORDER, TICK

_SHOWN = {"step_result", "add_event", "timeout", "waiter_timeout", "cancel_run"}
"""The ticks that are steps to a reader; the others belong to the step before."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A recorded tick, whole again."""

    seq: int  # its number in the journal of the run
    kind: str
    name: str  # its subject
    waits: bool  # whether the run waits for an event after it
    plain: Any  # the tick as plain data; `None` if it could not be recorded
    state: Any  # the state of the run after it
    # The events that were written to the stream since the tick before.
    published: list[Any] = field(default_factory=list)
    note: str = ""  # the parts of it that could not be recorded, and the reason
    outside: bool = False  # whether it is an event that the run did not send to itself
    due: float | None = None  # the moment of the next attempt of a step, in seconds since the first tick


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event of a workflow, from the recording.

    Args:
        name: Its class, without the module.
        fields: Its fields, as plain data.
    """

    name: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step of a recorded workflow: a step function that has ended, or an event that came from outside.

    Args:
        number: Its number in its run, from 1.
        run: The address of the run in the tree of the cassette.
        name: The step function; for an event from outside, its class.
        kind: `step`, `start` (the event that began the run), `answer` (an event that came from outside later),
            `timeout` or `cancel`.
        status: `ended`, `failed`, or `waiting` for an event.
        input: The event that was given to it.
        outputs: The events that it returned or sent; of one that waits, its question.
        published: The events that were written to the stream meanwhile.
        state: The values of the context's store after it.
        error: The error that it failed with.
        note: The parts of it that could not be recorded, and the reason.
    """

    number: int
    run: str
    name: str
    kind: str
    status: str
    input: RecordedEvent | None
    outputs: list[RecordedEvent]
    published: list[RecordedEvent]
    state: Any
    error: Any = None
    note: str = ""


@dataclass(slots=True)
class RecordedRun:
    """A recorded run of a workflow."""

    address: str
    snapshot: Any = None  # the state that it began with, if it did not begin again
    # Whether its events and its state were recorded; if not, its ticks are of use for their order only.
    has_steps: bool = True
    ticks: list[Tick] = field(default_factory=list)  # the ticks that drove it, in order

    def steps(self) -> list[tuple[RecordedStep, int]]:
        """Return the steps, each with the number of ticks until it has ended.

        The ticks that bring its events to the next steps come after.
        """
        found: list[tuple[RecordedStep, int]] = []
        for count, tick in enumerate(self.ticks, 1):
            step = _step_of(self, tick, len(found) + 1) if tick.kind in _SHOWN else None
            if step is not None:
                found.append((step, count))
            elif found:
                last, ended = found[-1]
                found[-1] = (replace(last, published=[*last.published, *_events(tick.published)]), ended)
        return found


def steps_of(cassette: str | Path, *, run: int | None = None) -> list[RecordedStep]:
    """Return the steps of the workflows that a cassette has recorded.

    A cassette has them if a `TapeEventHandler` observed the workflow, or a session recorded it on a `TapeRuntime`.
    Other sessions leave them out.

    Args:
        cassette: The cassette: a path or a URL.
        run: Only the steps of this run: 0 is the first of the cassette, -1 the last. By default all, one run after the
            other.

    Raises:
        CassetteNotFoundError: If there's no such file.
        CassetteError: If it cannot be read.
        ConfigurationError: If it has no steps of a workflow, or no such run.
    """
    chosen = recorded_runs(cassette) if run is None else [recorded_run(cassette, run)]
    return [step for each in chosen for step, _ in each.steps()]


def recorded_runs(cassette: str | Path) -> list[RecordedRun]:
    """Return the recorded runs of workflows, in the order in which they began.

    Raises `ConfigurationError` if there is none.
    """
    found = runs_in(record for record in open_cassette(cassette).records() if isinstance(record, Step))
    runs = [run for run in found if run.has_steps]
    if found and not runs:
        raise ConfigurationError(
            f"{cassette} has the order of the steps of a workflow, and no events or states\n"
            "  it was observed with TapeEventHandler(steps=False): leave that out to step through a run"
        )
    if not runs:
        raise ConfigurationError(
            f"{cassette} has no steps of a workflow\n"
            "  observe the workflow with TapeEventHandler, or record it with runtime=TapeRuntime(...)"
        )
    return runs


def runs_in(steps: Iterable[Step]) -> list[RecordedRun]:
    """Return the runs of workflows of which steps have the ticks."""
    runs: dict[str, _Reader] = {}
    for step in steps:
        if isinstance(step.data, dict) and TICK in step.data:
            runs.setdefault(step.address, _Reader(RecordedRun(step.address))).read(step)
    return [reader.run for reader in runs.values()]


def recorded_run(cassette: str | Path, run: int) -> RecordedRun:
    """Return a recorded run of a workflow: 0 is the first, -1 the last.

    Raises `ConfigurationError` if there's no such run.
    """
    runs = recorded_runs(cassette)
    if not -len(runs) <= run < len(runs):
        raise ConfigurationError(
            f"{cassette}: expected a run from {-len(runs)} to {len(runs) - 1} (0 is the first, -1 the last), "
            f"found {run}"
        )
    return runs[run]


class _Reader:
    """Puts the ticks of a run together again, of which the cassette holds the changes."""

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self._before: dict[str, Any] = {}
        self._events: dict[int, Any] = {}

    def read(self, record: Step) -> None:
        data = record.data
        try:
            kind = data[TICK]
            if "snapshot" in data:
                self.run.snapshot = data["snapshot"]
            for one in data.get("events", ()):
                before = self._events[one["of"]] if "of" in one else NOTHING
                self._events[one["n"]] = changed(before, one["value"]) if "value" in one else before
            self.run.ticks += self._arrived(data)
            plain = self._resolved(self._whole(f"{kind}:{record.name}", data.get("value", NOTHING)))
            if kind == "step_result" and plain is not None:
                plain = {"step_id": record.name, **plain}
            state = self._resolved(self._whole("state", data.get("state", NOTHING)))
            tick = Tick(
                data["seq"],
                kind,
                record.name,
                record.kind == INTERRUPT,
                plain,
                state,
                [self._published(one) for one in data.get("published", ())],
                record.fidelity_note,
                data.get("outside", False),
                data.get(DUE),
            )
        except (KeyError, TypeError) as error:
            raise UnreadableValueError(
                record.address, f"a tick of a workflow does not fit the one before: {error}"
            ) from error
        self.run.ticks.append(tick)

    def _arrived(self, data: Mapping[str, Any]) -> Iterator[Tick]:
        """Yield the ticks before one that only delivered a step's returned or sent event."""
        if ORDER in data:
            self.run.has_steps, names = False, data[ORDER] or ()
            for seq, name in enumerate(names, data["seq"] - len(names)):
                yield Tick(seq, "add_event", name, waits=False, plain=None, state=None)
        arrived = data.get(ARRIVED, ())
        for seq, one in enumerate(arrived, data["seq"] - len(arrived)):
            event = self._events[one["event"]]
            emission = {"invocation_id": one["by"], "index": one.get("index", 0)}
            plain = {"event": event, "stamped_at": one["at"], "emission": emission}
            name = event["qualified_name"].rpartition(".")[2]
            published = [self._published(number) for number in one.get("published", ())]
            yield Tick(seq, "add_event", name, waits=False, plain=plain, state=self._state(), published=published)

    def _state(self) -> Any:
        """Return the state after the last tick that has one."""
        return self._resolved(self._whole("state", NOTHING))

    def _published(self, one: Any) -> Any:
        """Return an event of the stream: older recordings have it in place of its number."""
        if isinstance(one, int):
            return self._events[one]
        return self._whole(f"published:{one['event']}", one.get("value", NOTHING))

    def _resolved(self, plain: Any) -> Any:
        """Return plain data with the events in place of their references."""
        if isinstance(plain, dict):
            if plain.keys() == {EVENT}:
                return self._events[plain[EVENT]]
            return {key: self._resolved(item) for key, item in plain.items()}
        return [self._resolved(item) for item in plain] if isinstance(plain, list) else plain

    def _whole(self, key: str, change: Any) -> Any:
        before = self._before.get(key, NOTHING)
        after = self._before[key] = before if change is NOTHING else changed(before, change)
        return None if after is NOTHING else after


def _step_of(run: RecordedRun, tick: Tick, number: int) -> RecordedStep | None:
    body = tick.plain or {}
    kind, status, error = "step", "ended", None
    if tick.kind == "step_result":
        error = next(_errors(body), None)
        status = "failed" if error is not None else "waiting" if tick.waits else "ended"
    elif tick.kind == "add_event":
        if not tick.outside:
            return None
        kind = "start" if number == 1 and run.snapshot is None else "answer"
    else:
        kind = "cancel" if tick.kind == "cancel_run" else "timeout"
    is_step = tick.kind == "step_result"
    return RecordedStep(
        number=number,
        run=run.address,
        name=tick.name,
        kind=kind,
        status=status,
        input=_event(body.get("event")) if is_step else None,
        outputs=_events(_outputs(body) if is_step else [body.get("event")]),
        published=_events(tick.published),
        state=_values(tick.state),
        error=error,
        note=tick.note,
    )


def _events(plain: Iterable[Any]) -> list[RecordedEvent]:
    return [event for event in map(_event, plain) if event is not None]


def _event(plain: Any) -> RecordedEvent | None:
    if not isinstance(plain, dict):
        return None
    fields = plain.get("value", {})
    own = {key: item for key, item in fields.items() if key != "_data"}
    return RecordedEvent(str(plain.get("qualified_name", "")).rpartition(".")[2], {**own, **fields.get("_data", {})})


def _outputs(body: dict[str, Any]) -> Iterator[Any]:
    for result in body.get("result", ()):
        event = result.get("result") if result.get("type") == "result" else result.get("waiter_event")
        if event is not None:
            yield event
    for sent in body.get("sends", ()):
        yield sent.get("event")


def _errors(body: dict[str, Any]) -> Iterator[Any]:
    return (result.get("exception") for result in body.get("result", ()) if result.get("type") == "failed")


def _values(state: Any) -> Any:
    data = state.get("state_data") if isinstance(state, dict) else None
    if not isinstance(data, dict):
        return data
    values = data.get("_data", data.get("_whole"))
    return values.get("value") if isinstance(values, dict) and values.get("__is_pydantic") else values
