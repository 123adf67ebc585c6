"""The form in which a tick is in a cassette: its fields that say something, with references to its events.

The delivery of an event that a step has returned or sent is most of the ticks, and follows from the result of that
step: it is an `Arrival`, which waits for the next tick and is written with it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from pydantic import BaseModel
from workflows.context.serializers import JsonSerializer
from workflows.context.utils import get_qualified_name
from workflows.events import Event
from workflows.runtime.types.results import (
    AddCollectedEvent,
    DeleteCollectedEvent,
    EmissionKey,
    SentEvent,
    StepWorkerResult,
)
from workflows.runtime.types.step_id import StepId
from workflows.runtime.types.ticks import TickAddEvent, TickStepResult, WorkflowTick

Refer = Callable[[Event], Mapping[str, int]]
"""Returns the reference to an event, which replaces the event."""

_SERIALIZER = JsonSerializer()
_PARTS = frozenset({StepWorkerResult, SentEvent, AddCollectedEvent, DeleteCollectedEvent})
"""The parts of a tick whose fields are atoms and events, and may be left out where they are the default."""
_NUMBERS = frozenset({int, float, bool})
_COLLECTIONS = frozenset({tuple, list, dict})
_ARRIVAL = frozenset({"event", "stamped_at", "emission"})
_NUMBERED = re.compile(r"(?:work_item|invocation)_\d+")
"""The names that the framework gives to the executions of steps: no secret is in them."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The delivery of an event that a step has returned or sent."""

    event: int  # the number of the event
    at: float  # the moment, in seconds since the run began
    by: str  # the execution of the step
    index: int  # which of the events of that execution it is
    published: list[int]  # the numbers of the events that were published since the tick before

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain: dict[str, Any] = {"event": self.event, "at": self.at, "by": self.by}
        if self.index:
            plain["index"] = self.index
        if self.published:
            plain["published"] = self.published
        return plain


class Unusual(Exception):  # noqa: N818 - it is caught next door, and nobody's error
    """A tick has a field that only the framework can write."""


def plain_value(value: Any) -> Any:
    """Return a value as the framework writes it. Raises `ValueError` if it cannot be written."""
    return json.loads(_SERIALIZER.serialize(value))


def plain_event(event: Event, places: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event that only has the fields of its class, in the framework's serialized form.

    `places` has values that are in some of its fields in place of theirs. Raises `ValueError` if it cannot be written.
    """
    cls = type(event)
    try:
        fields = json.loads(json.dumps(event.model_dump(mode="json", exclude=set(places) or None)))
    except Exception as error:
        raise ValueError(str(error)) from error  # as the framework does
    if places:
        fields = {name: places.get(name, fields.get(name)) for name in cls.model_fields if name in places | fields}
    return {"__is_pydantic": True, "value": fields, "qualified_name": get_qualified_name(event)}


def is_arrival(tick: WorkflowTick) -> TypeGuard[TickAddEvent]:
    """Return whether a tick only delivers an event of a step."""
    if type(tick) is not TickAddEvent or tick.emission is None or tick.stamped_at is None:
        return False
    return _ARRIVAL.issuperset(_told(tick))


def tick_fields(tick: WorkflowTick, refer: Refer, redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the fields of a tick that say something. The step of a result is left out: it is the subject of the tick.

    `refer` returns the reference to an event; `redact` replaces the secrets in plain data. Raises `ValueError` if it
    cannot be written.
    """
    try:
        fields = _said(tick, refer, redact)
    except Unusual:
        return _written_whole(tick, refer, redact)
    if type(tick) is TickStepResult:
        fields.setdefault("result", [])
    return fields


def _said(model: BaseModel, refer: Refer, redact: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        name: value if type(value) in _NUMBERS else _field(value, refer, redact) for name, value in _told(model).items()
    }


def _told(model: BaseModel) -> dict[str, Any]:
    """Return the significant fields: those that aren't empty, and differ from their defaults."""
    values = vars(model)
    return {
        name: value
        for name, default in _fields(type(model))
        if (value := values[name]) is not None and value is not default and (type(value) not in _COLLECTIONS or value)
    }


def _field(value: Any, refer: Refer, redact: Callable[[Any], Any]) -> Any:
    cls = type(value)
    if cls is str:
        return written_name(value, redact)
    if isinstance(value, Event):
        return refer(value)
    if cls is StepId:
        return redact(str(value))
    if cls is EmissionKey:
        return {"invocation_id": written_name(value.invocation_id, redact), "index": value.index}
    if cls is list and _PARTS.issuperset(map(type, value)):
        return [_part(item, refer, redact) for item in value]
    raise Unusual


def written_name(name: str, redact: Callable[[Any], Any]) -> Any:
    """Return a name with its secrets replaced; those that the framework counts out have none."""
    return name if _NUMBERED.fullmatch(name) else redact(name)


def _part(item: BaseModel, refer: Refer, redact: Callable[[Any], Any]) -> dict[str, Any]:
    kind = getattr(item, "type", None)
    return {**({"type": kind} if kind is not None else {}), **_said(item, refer, redact)}


@functools.lru_cache(64)
def _fields(cls: type[BaseModel]) -> list[tuple[str, Any]]:
    """Return the fields of a class that the framework writes, with their defaults."""
    left_out = {"type", "step_id"} if cls is TickStepResult else {"type"}
    return [
        (name, field.default) for name, field in cls.model_fields.items() if not (name in left_out or field.exclude)
    ]


# -- what only the framework can write -------------------------------------------------------------------------------


class _Placeholder(Event):
    """Stands for an event inside a tick until that is written."""

    number: int


def _written_whole(tick: WorkflowTick, refer: Refer, redact: Callable[[Any], Any]) -> dict[str, Any]:
    references: list[Any] = []

    def put(event: Event) -> Event:
        references.append(refer(event))
        return _Placeholder(number=len(references) - 1)

    plain = plain_value(_with_events(tick, put))["value"]
    fields = {
        key: item for key, item in plain.items() if key != "type" and (item not in (None, [], {}) or key == "result")
    }
    found: dict[str, Any] = _replaced(redact(fields), references)
    return found


def _with_events(model: Any, put: Callable[[Event], Event]) -> Any:
    """Return a tick, or a part of it, with others in place of its events."""
    update: dict[str, Any] = {}
    for name, value in vars(model).items():
        if isinstance(value, Event):
            update[name] = put(value)
        elif type(value) is list and any(isinstance(item, BaseModel) for item in value):
            update[name] = [_with_events(item, put) if isinstance(item, BaseModel) else item for item in value]
    return model.model_copy(update=update) if update else model


def _replaced(plain: Any, references: list[Any]) -> Any:
    """Return plain data with references in place of written placeholders."""
    if type(plain) is dict:
        if plain.get("__is_pydantic") and str(plain.get("qualified_name", "")).endswith(f".{_Placeholder.__name__}"):
            return references[plain["value"]["number"]]
        return {key: _replaced(item, references) for key, item in plain.items()}
    return [_replaced(item, references) for item in plain] if type(plain) is list else plain
