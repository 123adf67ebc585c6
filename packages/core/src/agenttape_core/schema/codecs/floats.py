"""Vectors: long lists of floats, written as bytes.

A vector of 1536 numbers would be 1536 unreadable lines of YAML. As the base64 of its bytes it is a quarter to a half of
that size, one line, and five to ten times quicker to write and to load. Short lists stay numbers, for readers.

`{"$floats": {"f4": {"$bytes": "..."}}}` holds little-endian IEEE 754 numbers of 4 bytes, where every one of them is
exact in so few, as those are that OpenAI sends; `f8` holds numbers of 8 bytes. `scalar` names the class of numpy where
the numbers are such: they are given back as floats where numpy is not loaded.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any

from agenttape_core.errors import UnreadableValueError
from agenttape_core.schema import Plain, TypeCodec
from agenttape_core.schema.codecs.fields import Nested
from agenttape_core.schema.plain import expect_dict

_LISTED = 64  # lists of up to so many numbers are written as numbers
_EMPTY = {"f4": array("f"), "f8": array("d")}
_SCALARS = ("float16", "float32", "float64")


class Floats:
    """A long list of floats, on its way into a cassette; it comes back as the list.

    Args:
        numbers: The list; its items are of one class.
    """

    __slots__ = ("numbers",)

    def __init__(self, numbers: list[Any]) -> None:
        self.numbers = numbers


def packed(value: Any) -> Any:
    """Return a value with each vector in it marked to be written as bytes: one vector, or a list of them."""
    if type(value) is not list or not value:
        return value
    if type(value[0]) is list:
        return [packed(item) for item in value]
    return Floats(value) if len(value) > _LISTED and _are_floats(value) else value


def _are_floats(values: list[Any]) -> bool:
    kinds = set(map(type, values))
    return kinds == {float} or (len(kinds) == 1 and _scalar(kinds.pop()) is not None)


def _scalar(cls: type) -> str | None:
    """Return the name of a numpy scalar class of floats; `None` for other classes."""
    name = cls.__name__
    return name if name in _SCALARS and cls is getattr(sys.modules.get("numpy"), name, None) else None


def _write(floats: Floats, nested: Nested) -> Plain:
    exact = array("d", floats.numbers)
    short = array("f", exact)
    form = "f4" if array("d", short) == exact else "f8"
    body = {form: nested(_little_endian(short if form == "f4" else exact).tobytes())}
    scalar = _scalar(type(floats.numbers[0]))
    return body if scalar is None else {**body, "scalar": scalar}


def _read(plain: Plain, nested: Nested) -> list[Any]:
    body = expect_dict(plain, "$floats")
    form = next((form for form in _EMPTY if form in body), None)
    data = nested(body[form]) if form is not None else None
    if form is None or not isinstance(data, bytes):
        raise UnreadableValueError("$floats", f"expected bytes under f4 or f8, found {sorted(body)}")
    numbers = _EMPTY[form][:]
    numbers.frombytes(data)
    values = _little_endian(numbers).tolist()
    numpy = sys.modules.get("numpy")
    if body.get("scalar") not in _SCALARS or numpy is None:
        return values
    return list(map(getattr(numpy, body["scalar"]), values))


def _little_endian(numbers: array[float]) -> array[float]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


VECTORS = (TypeCodec("$floats", lambda value: type(value) is Floats, _write, _read),)
"""Long lists of floats, marked by `packed`."""
