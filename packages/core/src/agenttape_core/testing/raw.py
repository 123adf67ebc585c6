"""Raw values: plain data that is equal only for indistinguishable values."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

from agenttape_core.schema import Plain

_ATOMS = frozenset({type(None), bool, int, float, str})
_REPR = (date, time, timedelta, Decimal, Fraction, UUID, PurePath, complex, range)  # types whose `repr` is complete
_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)

_Above = list[int]  # the ids of the values around one, outermost first
_Spell = Callable[[Any, _Above], Plain]


def raw(value: Any) -> Plain:
    """Return a value as plain data, with everything that distinguishes it from another, without normalization.

    Two values have the same data if they are of the same type and equal in all their parts: floats to the last bit, the
    order of keys, ids, times, private fields of pydantic models, the notes of an error. What is compared by identity,
    such as a lock, is its class only. A set has no order. Which fields of a pydantic model were given does not count.

    Args:
        value: Any value. It is taken down in its present state: later changes don't affect it.
    """
    return _spelled(value, [])


def _spelled(value: Any, above: _Above) -> Plain:
    kind: Any = type(value)
    if kind in _ATOMS:
        return value
    key = id(value)
    if key in above:
        return {"$circle": len(above) - above.index(key)}
    above.append(key)
    try:
        return _speller(kind)(value, above)
    finally:
        above.pop()


@lru_cache(maxsize=4096)
def _speller(kind: Any) -> _Spell:
    """Return the way in which the values of a class are taken down."""
    if kind is list:
        return _items
    tag = f"${_name(kind)}"
    if kind is dict:
        return lambda value, above: _dict(value, above, tag)
    body = _body(kind)
    return lambda value, above: {tag: body(value, above)}


def _body(kind: Any) -> _Spell:
    if issubclass(kind, enum.Enum):
        return lambda value, _: str(value.name)
    if issubclass(kind, bytes | bytearray | memoryview):
        return lambda value, _: bytes(value).hex()
    if issubclass(kind, _REPR):
        return lambda value, _: repr(value)
    if issubclass(kind, _NAMED):
        return lambda value, _: _name(value)
    fields, held = _fields(kind), _held(kind)
    if held is None:
        return lambda value, above: {name: _spelled(item, above) for name, item in fields(value)}
    return lambda value, above: _with_fields(held(value, above), fields(value), above)


def _with_fields(items: Plain, fields: Any, above: _Above) -> Plain:
    parts = {name: _spelled(item, above) for name, item in fields}
    return {"items": items, **parts} if parts else items


def _items(value: Any, above: _Above) -> Plain:
    return [item if type(item) in _ATOMS else _spelled(item, above) for item in value]


def _dict(value: Any, above: _Above, tag: str) -> Plain:
    for key in value:
        if type(key) is not str or key.startswith("$"):
            return {tag: _pairs(value, above)}
    return {key: item if type(item) in _ATOMS else _spelled(item, above) for key, item in value.items()}


def _pairs(value: Any, above: _Above) -> Plain:
    return [[_spelled(key, above), _spelled(item, above)] for key, item in value.items()]


_HELD: tuple[tuple[Any, _Spell], ...] = (
    (str, lambda value, _: [str.__str__(value)]),
    ((int, float), lambda value, _: [value + 0]),
    (Mapping, _pairs),
    (AbstractSet, lambda value, above: sorted((_spelled(item, above) for item in value), key=json.dumps)),
    (Sequence, _items),
)


def _held(kind: Any) -> _Spell | None:
    """Return how to take down the content of a class's values in addition to their fields; `None` if there is none."""
    if hasattr(kind, "dtype") and hasattr(kind, "tobytes"):  # an array or a scalar of numpy
        return lambda value, _: [str(value.dtype), list(value.shape), value.tobytes().hex()]
    return next((spell for kinds, spell in _HELD if issubclass(kind, kinds)), None)


def _fields(kind: Any) -> Callable[[Any], Any]:
    """Return how to get the names and values of the fields of an object, private ones included."""
    if issubclass(kind, BaseException):
        return lambda error: [("args", error.args), ("cause", error.__cause__), *sorted(vars(error).items())]
    if hasattr(kind, "__pydantic_fields_set__"):
        return _fields_of_model
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return lambda value: [(name, getattr(value, name, None)) for name in names]
    if not any("__eq__" in vars(cls) for cls in kind.__mro__[:-1]):  # it is compared by identity
        return lambda _: ()
    slots = _slots(kind)
    return lambda value: [
        *((name, getattr(value, name)) for name in slots if hasattr(value, name)),
        *getattr(value, "__dict__", {}).items(),
    ]


def _fields_of_model(model: Any) -> Any:
    extra, private = getattr(model, "__pydantic_extra__", None), getattr(model, "__pydantic_private__", None)
    return chain(vars(model).items(), (extra or {}).items(), (private or {}).items())


def _slots(kind: Any) -> list[str]:
    names: list[str] = []
    for cls in reversed(kind.__mro__):
        slots = vars(cls).get("__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return [name for name in dict.fromkeys(names) if name not in {"__dict__", "__weakref__"}]


def _name(thing: Any) -> str:
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None) or thing.__name__
    # Without dots, as the tag is a step of a path.
    return (name if module in {None, "builtins"} else f"{module}:{name}").replace(".", "/")
