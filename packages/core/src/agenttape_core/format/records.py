"""Records as dicts of a file, with their keys in the order of the format, and back."""

from __future__ import annotations

import re
from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import FailFast, ValidationError

from agenttape_core.format.malformed import Malformed
from agenttape_core.format.timings import dump_step_timings, dump_timings, load_step_timings, load_timings
from agenttape_core.format.written_steps import Stored, WrittenStep
from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Outcome, Step, StepTiming, Timing, Usage
from agenttape_core.schema.interaction import AFTER_MOMENTS, BEFORE_MOMENTS, Moment
from agenttape_core.schema.record import Record, set_extra, set_given, set_private, set_state

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from agenttape_core.format.continuation import Delta

R = TypeVar("R", bound=Record)
AnyRecord = Interaction | Step | WrittenStep  # a record of a cassette that is made

HEAD = ("interaction", "kind", "name", "address", "fingerprint")
"""The first keys of an interaction, in this order: the index reads them."""
STEP_HEAD = ("step", "kind", "name", "address")
"""The first keys of a step, in this order: the first identifies it as a step."""
_FIRST = 1  # the format version without steps, and in which a reference to an asset is ordinary plain data
ASSET = "$asset"  # the key of a reference to an asset
_SINCE_SECOND = frozenset({"step", "metadata", "fidelity", "fidelity_note"})
"""The keys of records that version 1 does not have."""
_REQUIRED: Any = object()
_FREE = frozenset({"status", "value", "usage"})  # the keys of an outcome that returned, and did nothing else
_OPTIONAL = ("parent", "ids", "tags", "metadata", "fidelity", "fidelity_note", "acts")
INTERACTION_KEYS = {*HEAD, *_OPTIONAL, "continues", "keep", "without", "request", "outcome"}
"""The keys that a stored interaction may have."""


def interaction_to_dict(interaction: Interaction, delta: Delta) -> dict[str, Any]:
    """Return a record in its stored form; empty values are omitted."""
    fields = {
        "interaction": interaction.number,
        "kind": interaction.kind,
        "name": interaction.name,
        "address": interaction.address,
        "fingerprint": interaction.fingerprint,
        "parent": interaction.parent,
        "ids": interaction.ids or None,
        "tags": interaction.tags or None,
        "metadata": interaction.metadata or None,
        "fidelity": interaction.fidelity if interaction.fidelity != "exact" else None,
        "fidelity_note": interaction.fidelity_note or None,
        "acts": [_stored(each) for each in interaction.acts] if interaction.acts is not None else None,
        "continues": delta.continues,
        "keep": delta.keep,
        "without": list(delta.without) or None,
        "request": delta.request,
        "outcome": _stored(interaction.outcome),
    }
    return {key: value for key, value in fields.items() if value is not None}


def step_to_dict(step: Step) -> dict[str, Any]:
    """Return a step in its stored form; defaults are omitted."""
    fields = _stored(step)
    return {"step": fields.pop("number"), **fields}


def step_from_dict(value: dict[str, Any], *, after: int = -1) -> Step:
    """Check a stored step, and that its number is greater than the previous one."""
    fields = {key: item for key, item in value.items() if key != "step"}
    if "number" in fields:
        raise Malformed("the step has an unknown key: 'number'")
    step = _validate(Step, {"number": value.get("step"), **fields})
    if step.number <= after:
        raise Malformed(f"`step: {step.number}` after {after}: numbers must grow")
    return step


def version_of(header: Header, records: Iterable[Stored]) -> int:
    """The oldest format version that has every feature in a file, so that older readers can read as much as possible.

    The volatile block doesn't count: two recordings of the same run differ only there. `records` are in their stored
    form, without their assets.
    """
    since_second = header.ignore or header.origin is not None or header.payload != "full"
    return FORMAT_VERSION if since_second or any(map(_is_of_second, records)) else _FIRST


_LATE_PARTS = frozenset({"arguments", "effects"})  # the parts of an outcome that the first version does not have


def _is_of_second(record: Stored) -> bool:
    if isinstance(record, WrittenStep):
        return True
    outcome = record.get("outcome")
    is_late = isinstance(outcome, dict) and (not _LATE_PARTS.isdisjoint(outcome) or outcome.get("status") == "refused")
    return is_late or not _SINCE_SECOND.isdisjoint(record)


def header_to_dict(header: Header, *, version: int = _FIRST, stamps: str = "") -> dict[str, Any]:
    """Return the header in its stored form: the version first, the volatile block last, and the timings last in it.

    `stamps` are the records', as text.
    """
    stored = {"agenttape": version, **_stored(header)}
    volatile = stored.pop("volatile", {})
    for key in ("steps", "timings"):
        volatile.pop(key, None)
    if stamps:
        volatile["stamps"] = stamps
    if header.volatile.steps:
        volatile["steps"] = dump_step_timings(header.volatile.steps)
    if header.volatile.timings:
        volatile["timings"] = dump_timings(header.volatile.timings)
    return {**stored, "volatile": volatile} if volatile else stored


def _text_of_timings(key: str, load: Callable[[str], Any]) -> Callable[[Any], Any]:
    def checked(text: Any) -> Any:
        if not isinstance(text, str):
            raise Malformed(f"`{key}` must be text, not {type(text).__name__}")
        return load(text)

    return checked


_TIMINGS = {key: _text_of_timings(key, load) for key, load in (("steps", load_step_timings), ("timings", load_timings))}


def has_assets(value: dict[str, Any]) -> bool:
    """Return True if a stored header, which was checked, is of a version with assets."""
    version: int = value["agenttape"]
    return version > _FIRST


def header_from_dict(value: dict[str, Any]) -> Header:
    """Check a stored header, its version and timings included."""
    version = value.get("agenttape")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise Malformed(f"not of AgentTape: it must begin with the format version, `agenttape: {_FIRST}`")
    fields = {key: item for key, item in value.items() if key != "agenttape"}
    volatile = fields.get("volatile")
    if isinstance(volatile, dict):
        loaded = {key: load(volatile[key]) for key, load in _TIMINGS.items() if key in volatile}
        fields["volatile"] = {**volatile, **loaded}
    taken = _taken(Header, fields)
    return taken if taken is not None else _validate(Header, fields)


def with_timings(header: Header, timings: dict[int, Timing], steps: dict[int, StepTiming]) -> Header:
    """The same header with other timings, of interactions and of steps."""
    volatile = header.volatile.model_copy(update={"timings": timings, "steps": steps})
    return header.model_copy(update={"volatile": volatile})


def ids_from_list(value: Any) -> list[str]:
    """Check the stored ids of a record."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Malformed("`ids` must be a list of strings")
    return value


def delta_from_dict(value: dict[str, Any], number: int, known: Container[int]) -> Delta:
    """The stored request of record `number`, which may continue an earlier one that is known."""
    request, without = value.get("request"), value.get("without", [])
    if not isinstance(request, dict):
        raise Malformed("`request` must be a dict of the request's parts")
    if not isinstance(without, list) or not all(isinstance(key, str) for key in without):
        raise Malformed("`without` must be a list of keys")
    continues, keep = _natural(value, "continues"), _natural(value, "keep")
    if continues is None and (keep is not None or without):
        raise Malformed("`keep` and `without` need `continues`")
    if continues is not None and continues >= number:
        raise Malformed(f"`continues: {continues}` must name a record before this one ({number})")
    if continues is not None and continues not in known:
        raise Malformed(f"`continues: {continues}` names a record that is not in the file")
    from agenttape_core.format.continuation import Delta  # most replays read no request

    return Delta(request, continues, keep, tuple(without))


def interaction_from_dict(value: dict[str, Any], request: dict[str, Any]) -> Interaction:
    """Check a stored record, given its resolved request."""
    unknown = value.keys() - INTERACTION_KEYS
    if unknown:
        raise Malformed(f"the record has an unknown key: {min(unknown)!r}")
    fields = {key: value[key] for key in ("kind", "name", "address", "fingerprint", "outcome") if key in value}
    optional = {key: value[key] for key in _OPTIONAL if key in value}
    return _validate(Interaction, {"number": value.get("interaction"), **fields, **optional, "request": request})


def outcome_from_dict(value: Any) -> Outcome:
    """Check a stored outcome."""
    if type(value) is not dict or value.get("status") != "returned" or not value.keys() <= _FREE:
        return _validate(Outcome, value)
    usage = value.get("usage")
    if usage is not None and (usage := _taken(Usage, usage)) is None:
        return _validate(Outcome, value)
    made = Outcome.__new__(Outcome)  # as `model_construct` does: nothing can be wrong, and each call is answered by one
    set_state(made, {**_nothing_else(), "effects": [], "arguments": {}, **value, "usage": usage})
    set_given(made, set(value))
    set_extra(made, None)
    set_private(made, None)
    return made


@cache
def _nothing_else() -> dict[str, Any]:
    return dict(_defaults(Outcome))


def _natural(value: dict[str, Any], key: str) -> int | None:
    number = value.get(key)
    if number is not None and (type(number) is not int or number < 0):
        raise Malformed(f"`{key}` must be a number that is not negative")
    return number


def _stored(record: Record) -> dict[str, Any]:
    """The fields of a record that differ from their defaults, nested records as dicts."""
    stored: dict[str, Any] = {}
    fields = vars(record)
    for name, default in _defaults(type(record)):
        value = fields[name]
        if default is _REQUIRED or value != default:
            stored[name] = value if type(value) is str else _stored_field(value)
    return stored


def _stored_field(value: Any) -> Any:
    if isinstance(value, Record):
        return _stored(value)
    if type(value) is list and value and isinstance(value[0], Record):
        return [_stored(item) for item in value]
    return value


@cache
def _defaults(model: type[Record]) -> list[tuple[str, Any]]:
    """The fields of a sort of records with their defaults; pydantic looks at each factory's signature to call it."""
    fields = model.model_fields.items()
    return [
        (name, _REQUIRED if field.is_required() else field.get_default(call_default_factory=True))
        for name, field in fields
    ]


_PLAIN: dict[Any, tuple[type, ...]] = {
    bool: (bool,),
    str: (str,),
    str | None: (NoneType, str),
    int | None: (NoneType, int),
    float | None: (NoneType, float),
}
"""The types of values that pydantic takes unchanged, by the type of the field."""
_CONTAINERS: dict[Any, Callable[[Any], bool]] = {
    Any: lambda _: True,
    list[str]: lambda value: type(value) is list and {*map(type, value)} <= {str},
    dict[str, Any]: lambda value: type(value) is dict and {*map(type, value)} <= {str},
    dict[str, str]: lambda value: type(value) is dict and {*map(type, (*value, *value.values()))} <= {str},
    Moment | None: lambda value: value is None or (type(value) is float and BEFORE_MOMENTS < value < AFTER_MOMENTS),
    dict[int, Timing]: lambda _: True,  # made of their text, as those of steps
    dict[int, StepTiming]: lambda _: True,
}
"""The same for values that a look at their type doesn't tell."""


@cache
def _recognized(model: type[Record]) -> list[tuple[str, Any, tuple[type, ...], Callable[[Any], bool] | None]]:
    """The fields of a sort of records: name, default, types that pydantic takes unchanged, and what looks closer."""
    rows = []
    for name, default in _defaults(model):
        field = model.model_fields[name]
        types, look = _PLAIN.get(field.annotation, ()), _CONTAINERS.get(field.annotation)
        if rules := [rule for rule in field.metadata if not isinstance(rule, FailFast)]:
            patterns: list[Any] = [getattr(rule, "pattern", None) for rule in rules]  # all else is left to pydantic
            types, look = (), partial(_matches, patterns) if all(patterns) else None
        rows.append((name, default, types, look))
    return rows


def _matches(patterns: list[str], value: Any) -> bool:
    return type(value) is str and None not in [re.fullmatch(pattern, value) for pattern in patterns]


def _taken(model: type[R], value: Any) -> R | None:
    """Return a record, if pydantic would take all of its values unchanged; `None` if it has to look at them.

    To build what pydantic checks a header with takes longer than all that a replay of one call reads.
    """
    if type(value) is not dict:
        return None
    left, state = dict(value), {}
    for name, default, types, look in _recognized(model):
        if name not in left:
            state[name] = default.copy() if type(default) in {list, dict} else default
            if default is _REQUIRED:
                return None
            continue
        item = left.pop(name)
        if isinstance(default, Record):
            item = _taken(type(default), item)
            if item is None:
                return None
        elif type(item) not in types and not (look is not None and look(item)):
            return None
        state[name] = item
    if left:
        return None
    record = model.__new__(model)
    set_state(record, state)
    set_given(record, set(value))
    set_extra(record, None)
    set_private(record, None)
    return record


def _validate(model: type[R], value: Any) -> R:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or model.__name__.lower()
        raise Malformed(f"`{place}`: {first['msg'].removeprefix('Value error, ')}") from None
