"""Codecs for what users make of Python's types: subclasses of built-in ones, attrs classes, models of pydantic v1.

They come after all others: a framework's own subclass of `str` has its own codec. Reading fills an instance without
calling code of its class: no `__init__`, no `__new__`, no validator.
"""

from __future__ import annotations

import datetime as dt
import enum
import sys
import types
from collections.abc import Iterator
from typing import Any

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.schema.class_names import class_of, recordable_class
from agenttape_core.schema.plain import Plain
from agenttape_core.schema.python_types import CODECS, named, zone_called
from agenttape_core.schema.values import Decode, Encode, TypeCodec, ValueCodec

_BASES = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float, complex)
_BY_NAME: dict[str, Any] = {base.__name__: base for base in _BASES}
_FILLED: dict[Any, Any] = {dict: dict.update, list: list.extend, set: set.update, bytearray: bytearray.extend}
"""The types that are made empty, and how their items are put in."""
_HEAP_TYPE = 1 << 9  # the flag of classes that are written in Python (`Py_TPFLAGS_HEAPTYPE`): others keep hidden state


def _base_of(cls: type) -> type | None:
    """Return the built-in type that a class is made of, if all classes between them are written in Python."""
    for each in cls.__mro__:
        if each in _BASES:
            return each
        if not each.__flags__ & _HEAP_TYPE:
            return None
    return None


def _slots(cls: type) -> Iterator[str]:
    for each in cls.__mro__:
        names = vars(each).get("__slots__", ())
        yield from (names,) if isinstance(names, str) else names


def _attributes(value: Any) -> dict[str, Any]:
    """Return the content of an object's dict and slots."""
    in_slots = {name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)}
    return {**in_slots, **getattr(value, "__dict__", {})}


def _encode_subclass(value: Any, nested: Encode) -> Plain:
    base: Any = _base_of(type(value))
    body = {"type": recordable_class(value), "of": base.__name__, "value": nested(_plainly(base, value))}
    attributes = _attributes(value)
    return {**body, "attributes": named(attributes, nested)} if attributes else body


def _plainly(base: Any, value: Any) -> Any:
    """Return a value as one of its built-in type, without methods of its class."""
    if base is dict:
        return dict(dict.items(value))
    if base is complex:
        return complex(value.real, value.imag)
    return base.__add__(value, base()) if base in {str, bytes, tuple, list} else _copied(base, value)


def _copied(base: Any, value: Any) -> Any:
    if base in {int, float}:
        return base.__pos__(value)
    copied = base()
    if base is frozenset:
        return frozenset(frozenset.__iter__(value))
    _FILLED[base](copied, base.__iter__(value))
    return copied


def _decode_subclass(plain: Any, nested: Decode) -> Any:
    base: Any = _BY_NAME[plain["of"]]
    cls, content = class_of(plain["type"], base), nested(plain["value"])
    if _base_of(cls) is not base or type(content) is not base:
        raise UnreadableValueError(plain["type"], f"expected a subclass of {base.__name__} and a value of that type")
    fill = _FILLED.get(base)
    make: Any = base.__new__
    value = make(cls) if fill is not None else make(cls, content)
    if fill is not None:
        fill(value, content)
    return _with_attributes(value, named(plain.get("attributes", {}), nested))


def _with_attributes(value: Any, attributes: dict[str, Any]) -> Any:
    for name, item in attributes.items():
        object.__setattr__(value, name, item)
    return value


def _encode_attrs(value: Any, nested: Encode) -> Plain:
    names = [field.name for field in type(value).__attrs_attrs__]
    body: dict[str, Any] = {
        "type": recordable_class(value),
        "fields": {name: nested(getattr(value, name)) for name in names if hasattr(value, name)},
    }
    if unset := [name for name in names if name not in body["fields"]]:
        body["unset"] = unset
    others = {name: item for name, item in getattr(value, "__dict__", {}).items() if name not in names}
    return {**body, "attributes": named(others, nested)} if others else body


def _decode_attrs(plain: Any, nested: Decode) -> Any:
    cls: Any = class_of(plain["type"], object)
    if not hasattr(cls, "__attrs_attrs__"):
        raise UnreadableValueError(plain["type"], "expected an attrs class, found another class of that name")
    expected, found = {field.name for field in cls.__attrs_attrs__}, {*plain["fields"], *plain.get("unset", ())}
    if expected != found:
        why = f"its fields changed: recorded {sorted(found)}, found {sorted(expected)}; re-record"
        raise UnreadableValueError(plain["type"], why)
    return _with_attributes(object.__new__(cls), named(plain["fields"] | plain.get("attributes", {}), nested))


def _is_zone(value: Any) -> bool:
    zones = sys.modules.get("zoneinfo")
    return type(value) is dt.timezone or (zones is not None and type(value) is zones.ZoneInfo)


def _encode_zone(value: Any, _: Encode) -> Plain:
    if not isinstance(value, dt.timezone):
        if value.key is None:
            raise UnrecordableValueError("$", type(value), "it was read from a file, and has no key")
        return value.key
    zone: Any = value
    offset, *name = zone.__getinitargs__()
    return [[offset.days, offset.seconds, offset.microseconds], *name]


def _decode_zone(plain: Any, _: Decode) -> Any:
    if isinstance(plain, str):
        return zone_called(plain)
    offset, *name = plain
    return dt.timezone(dt.timedelta(*offset), *name)


def _encode_enum(value: Any, _: Encode) -> Plain:
    name = recordable_class(value)
    return [name, value.name if value.name in type(value).__members__ else value.value]


def _decode_enum(plain: Any, _: Decode) -> Any:
    name, member = plain
    cls: Any = class_of(name, enum.Enum)
    if isinstance(member, str) and member in cls.__members__:
        return cls.__members__[member]
    if type(member) is int and issubclass(cls, enum.Flag) and cls._missing_.__func__ is enum.Flag._missing_.__func__:  # type: ignore[attr-defined]
        return cls(member)
    raise UnreadableValueError(name, f"expected one of {sorted(cls.__members__)}, found {member!r}")


def _is_of_v1(value: Any) -> bool:
    module = sys.modules.get("pydantic.v1.main")
    return module is not None and isinstance(value, module.BaseModel)


_PARTS = {"fields": "__dict__", "private": "__private_attribute_values__"}


def _encode_v1(value: Any, nested: Encode) -> Plain:
    state = value.__getstate__()
    body = {"type": recordable_class(value), **{key: named(state[part], nested) for key, part in _PARTS.items()}}
    return {**body, "set": sorted(value.__fields_set__)}


def _decode_v1(plain: Any, nested: Decode) -> Any:
    cls = class_of(plain["type"], sys.modules["pydantic.v1.main"].BaseModel)
    value = cls.__new__(cls)
    parts = {part: named(plain[key], nested) for key, part in _PARTS.items()}
    value.__setstate__({**parts, "__fields_set__": set(map(sys.intern, plain["set"]))})
    return value


_ENUM = TypeCodec("$enum", lambda v: isinstance(v, enum.Enum), _encode_enum, _decode_enum)
"""Enums, and combinations of flags, which have a number and no name."""

USER_TYPES: tuple[TypeCodec, ...] = (
    TypeCodec("$zone", _is_zone, _encode_zone, _decode_zone),
    TypeCodec(
        "$namespace",
        lambda v: type(v) is types.SimpleNamespace,
        lambda v, nested: named(vars(v), nested),
        lambda plain, nested: types.SimpleNamespace(**named(plain, nested)),
    ),
    TypeCodec(
        "$attrs",
        lambda v: hasattr(type(v), "__attrs_attrs__") and not isinstance(v, BaseException | type),
        _encode_attrs,
        _decode_attrs,
    ),
    TypeCodec("$model_v1", _is_of_v1, _encode_v1, _decode_v1),
    TypeCodec("$subclass", lambda v: _base_of(type(v)) is not None, _encode_subclass, _decode_subclass),
)

ALL_VALUES = ValueCodec((_ENUM, *CODECS, *USER_TYPES))
"""The codec of all that can be kept without any framework's families."""
