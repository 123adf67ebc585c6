"""Codecs for the standard library's rarer containers and words: dicts, ranges, patterns, addresses."""

from __future__ import annotations

import array
import collections
import ipaddress
import re
from typing import Any

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.schema.plain import Plain
from agenttape_core.schema.values import Decode, Encode, TypeCodec

_FACTORIES: dict[str, Any] = {cls.__name__: cls for cls in (bool, bytes, dict, float, int, list, set, str, tuple)}
_MAPPINGS: dict[str, Any] = {"OrderedDict": collections.OrderedDict, "Counter": collections.Counter}
_ADDRESSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        ipaddress.IPv4Address,
        ipaddress.IPv6Address,
        ipaddress.IPv4Network,
        ipaddress.IPv6Network,
        ipaddress.IPv4Interface,
        ipaddress.IPv6Interface,
    )
}


_FLAGS = int(re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.UNICODE | re.VERBOSE)
"""The flags of Python that change the meaning of a pattern."""


def _pairs(value: dict[Any, Any], nested: Encode) -> Plain:
    return [[nested(key), nested(item)] for key, item in value.items()]


def _encode_mapping(value: Any, nested: Encode) -> Plain:
    return {"type": type(value).__name__, "items": _pairs(value, nested)}


def _decode_mapping(plain: Any, nested: Decode) -> Any:
    return _MAPPINGS[plain["type"]]({nested(key): nested(item) for key, item in plain["items"]})


def _encode_defaultdict(value: collections.defaultdict[Any, Any], nested: Encode) -> Plain:
    factory: Any = value.default_factory
    name = getattr(factory, "__name__", None)
    if factory is not None and _FACTORIES.get(str(name)) is not factory:
        why = f"its default factory {factory!r} has no codec; make it a plain dict"
        raise UnrecordableValueError("$", type(value), why)
    return {"factory": name, "items": _pairs(value, nested)}


def _decode_defaultdict(plain: Any, nested: Decode) -> Any:
    factory = plain["factory"]
    made = _FACTORIES[factory] if factory is not None else None
    return collections.defaultdict(made, {nested(key): nested(item) for key, item in plain["items"]})


def _encode_address(value: Any, _: Encode) -> Plain:
    return [type(value).__name__, str(value)]


def _decode_address(plain: Any, _: Decode) -> Any:
    name, text = plain
    return _ADDRESSES[name](text)


def _encode_pattern(value: re.Pattern[Any], nested: Encode) -> Plain:
    return {"pattern": nested(value.pattern), "flags": value.flags}


def _decode_pattern(plain: Any, nested: Decode) -> Any:
    if plain["flags"] & ~_FLAGS:
        raise UnreadableValueError("$pattern", f"{plain['flags']} isn't a combination of flags")
    try:
        return re.compile(nested(plain["pattern"]), plain["flags"])
    except (re.error, RecursionError) as error:
        raise UnreadableValueError("$pattern", str(error)) from None


def _encode_array(value: array.array[Any], _: Encode) -> Plain:
    return [value.typecode, value.tolist()]


CONTAINERS: tuple[TypeCodec, ...] = (
    TypeCodec("$mapping", lambda v: type(v) in _MAPPINGS.values(), _encode_mapping, _decode_mapping),
    TypeCodec("$defaultdict", lambda v: type(v) is collections.defaultdict, _encode_defaultdict, _decode_defaultdict),
    TypeCodec(
        "$range",
        lambda v: type(v) is range,
        lambda v, _: [v.start, v.stop, v.step],
        lambda plain, _: range(*plain),
    ),
    TypeCodec("$ip", lambda v: type(v) in _ADDRESSES.values(), _encode_address, _decode_address),
    TypeCodec("$pattern", lambda v: type(v) is re.Pattern, _encode_pattern, _decode_pattern),
    TypeCodec("$array", lambda v: type(v) is array.array, _encode_array, lambda plain, _: array.array(*plain)),
)
