"""Values as they are: plain data that is equal only for values that nobody could tell apart."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

from agenttape_core.schema import Plain

_TEXTS = (date, time, timedelta, Decimal, Fraction, UUID, PurePath, complex, range)
"""Types whose `repr` says all that there is to say."""


def raw(value: Any) -> Plain:
    """Return a value as plain data, with all that tells it from another; nothing is normalised.

    Two values have the same data if they are of the same type and equal in all their parts: floats to the last bit, the
    order of keys, ids, times, private fields of pydantic models, the notes of an error. What is compared by identity,
    such as a lock, is its class only. A set has no order. Which fields of a pydantic model were given does not count.

    Args:
        value: Any value. It is taken down as it is now: later changes of it change nothing.
    """
    return _raw(value, ())


def _raw(value: Any, above: tuple[int, ...]) -> Plain:
    kind = type(value)
    if value is None or kind in {bool, int, float, str}:
        return value
    if id(value) in above:
        return {"$circle": len(above) - above.index(id(value))}
    above = (*above, id(value))
    if kind is list:
        return [_raw(item, above) for item in value]
    if kind is dict and all(type(key) is str and not key.startswith("$") for key in value):
        return {key: _raw(item, above) for key, item in value.items()}
    return {f"${_name(kind)}": _body(value, lambda item: _raw(item, above))}


def _body(value: Any, spell: Callable[[Any], Plain]) -> Plain:
    if isinstance(value, enum.Enum):
        return str(value.name)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, _TEXTS):
        return repr(value)
    if isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType | ModuleType):
        return _name(value)
    parts = {name: spell(item) for name, item in _fields(value)}
    if (held := _held(value, spell)) is None:
        return parts
    return {"items": held, **parts} if parts else held


def _held(value: Any, spell: Callable[[Any], Plain]) -> Plain:
    """Return what a value of a built-in type, or of a class derived from one, holds; `None` for other values."""
    if isinstance(value, str | int | float):
        return [str.__str__(value) if isinstance(value, str) else value + 0]
    if isinstance(value, Mapping):
        return [[spell(key), spell(item)] for key, item in value.items()]
    if isinstance(value, AbstractSet):
        return sorted((spell(item) for item in value), key=json.dumps)
    if isinstance(value, Sequence):
        return [spell(item) for item in value]
    if hasattr(value, "dtype") and callable(getattr(value, "tobytes", None)):  # an array or a scalar of numpy
        return [str(value.dtype), list(value.shape), value.tobytes().hex()]
    return None


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the fields of an object, private ones included."""
    kind: Any = type(value)
    if isinstance(value, BaseException):
        yield from (("args", value.args), ("cause", value.__cause__), *sorted(vars(value).items()))
    elif hasattr(kind, "__pydantic_fields_set__"):
        yield from vars(value).items()
        yield from (getattr(value, "__pydantic_extra__", None) or {}).items()
        yield from (getattr(value, "__pydantic_private__", None) or {}).items()
    elif dataclasses.is_dataclass(value):
        yield from ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif _is_value(kind):
        yield from ((name, getattr(value, name)) for name in _slots(kind) if hasattr(value, name))
        yield from getattr(value, "__dict__", {}).items()


@cache
def _is_value(kind: type) -> bool:
    """Return True if objects of a class are compared by what they hold."""
    return any("__eq__" in vars(cls) for cls in kind.__mro__[:-1])


@cache
def _slots(kind: type) -> tuple[str, ...]:
    names: list[str] = []
    for cls in reversed(kind.__mro__):
        slots = vars(cls).get("__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return tuple(name for name in dict.fromkeys(names) if name not in {"__dict__", "__weakref__"})


def _name(thing: Any) -> str:
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None) or thing.__name__
    # Without dots, as the tag is a step of a path.
    return (name if module in {None, "builtins"} else f"{module}:{name}").replace(".", "/")
