"""Records as dicts of a file, with their keys in the order of the format, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Outcome, Timing
from agenttape_core.schema.record import Record
from agenttape_core.storage.continuation import Delta
from agenttape_core.storage.malformed import Malformed
from agenttape_core.storage.timings import dump_timings, load_timings

if TYPE_CHECKING:
    from collections.abc import Container

R = TypeVar("R", bound=Record)

HEAD = ("interaction", "kind", "name", "address", "fingerprint")
"""The first keys of a record, in this order: what the index reads."""
_WITHOUT_ASSETS = 1
"""The format version in which a reference to an asset is nothing but plain data."""
_KEYS = {*HEAD, "parent", "tags", "ids", "continues", "keep", "without", "request", "outcome"}


def interaction_to_dict(interaction: Interaction, delta: Delta) -> dict[str, Any]:
    """A record as it is stored; what is empty is omitted."""
    fields = {
        "interaction": interaction.number,
        "kind": interaction.kind,
        "name": interaction.name,
        "address": interaction.address,
        "fingerprint": interaction.fingerprint,
        "parent": interaction.parent,
        "ids": interaction.ids or None,
        "tags": interaction.tags or None,
        "continues": delta.continues,
        "keep": delta.keep,
        "without": list(delta.without) or None,
        "request": delta.request,
        "outcome": _stored(interaction.outcome),
    }
    return {key: value for key, value in fields.items() if value is not None}


def header_to_dict(header: Header, *, assets: bool = False) -> dict[str, Any]:
    """The header as it is stored: the version first, the volatile block last, the timings last in it.

    The version is the oldest that has what the file needs, so that older readers can read what they understand.
    """
    stored = {"agenttape": FORMAT_VERSION if assets else _WITHOUT_ASSETS, **_stored(header)}
    volatile = stored.pop("volatile", {})
    volatile.pop("timings", None)
    if header.volatile.timings:
        volatile["timings"] = dump_timings(header.volatile.timings)
    return {**stored, "volatile": volatile} if volatile else stored


def has_assets(value: dict[str, Any]) -> bool:
    """Whether a stored header, which was checked, is of a version with assets."""
    version: int = value["agenttape"]
    return version > _WITHOUT_ASSETS


def header_from_dict(value: dict[str, Any]) -> Header:
    """Check a stored header, its version and timings included."""
    version = value.get("agenttape")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise Malformed(f"not of AgentTape: it must begin with the format version, `agenttape: {_WITHOUT_ASSETS}`")
    fields = {key: item for key, item in value.items() if key != "agenttape"}
    volatile = fields.get("volatile")
    if isinstance(volatile, dict) and "timings" in volatile:
        timings = volatile["timings"]
        if not isinstance(timings, str):
            raise Malformed(f"`timings` must be text, not {type(timings).__name__}")
        fields["volatile"] = {**volatile, "timings": load_timings(timings)}
    return _validate(Header, fields)


def with_timings(header: Header, timings: dict[int, Timing]) -> Header:
    """The same header with other timings."""
    return header.model_copy(update={"volatile": header.volatile.model_copy(update={"timings": timings})})


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
    return Delta(request, continues, keep, tuple(without))


def interaction_from_dict(value: dict[str, Any], request: dict[str, Any]) -> Interaction:
    """Check a stored record, given its resolved request."""
    unknown = value.keys() - _KEYS
    if unknown:
        raise Malformed(f"the record has an unknown key: {min(unknown)!r}")
    fields = {key: value[key] for key in ("kind", "name", "address", "fingerprint", "outcome") if key in value}
    optional = {key: value[key] for key in ("parent", "tags", "ids") if key in value}
    return _validate(Interaction, {"number": value.get("interaction"), **fields, **optional, "request": request})


def outcome_from_dict(value: Any) -> Outcome:
    """Check a stored outcome."""
    return _validate(Outcome, value)


def _natural(value: dict[str, Any], key: str) -> int | None:
    number = value.get(key)
    if number is not None and (type(number) is not int or number < 0):
        raise Malformed(f"`{key}` must be a number that is not negative")
    return number


def _stored(record: Record) -> dict[str, Any]:
    """The fields of a record that differ from their defaults, nested records as dicts."""
    stored: dict[str, Any] = {}
    for name, field in type(record).model_fields.items():
        value = getattr(record, name)
        if field.is_required() or value != field.get_default(call_default_factory=True):
            stored[name] = _stored(value) if isinstance(value, Record) else value
    return stored


def _validate(model: type[R], value: Any) -> R:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or model.__name__.lower()
        raise Malformed(f"`{place}`: {first['msg']}") from None
