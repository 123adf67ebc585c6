"""Python values as plain data and back, with their types.

Plain data are the values that JSON and YAML share: `None`, `bool`, `int`, finite `float`, `str` that is valid Unicode,
`list`, and `dict` with such strings as keys. Every other value is written as a *tagged* dict: one single key that
starts with `$`, such as `{"$tuple": [1, 2]}`. A user's dict of that shape gets its key's `$` doubled, and a dict with
other keys than strings becomes `{"$dict": [[key, value], ...]}`, so there are no collisions.

The set of tags is open: integrations add a `TypeCodec` per family of framework objects. Decoding only ever calls
codecs of this process; a tag or a type name in a file never causes an import.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema.plain import Plain

Encode = Callable[[Any], Plain]
Decode = Callable[[Plain], Any]

_ESCAPED = Lazy(r"(?:[^\\]|\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*+", re.ASCII)

MAX_DEPTH = 100
"""Values nested deeper are refused: they refer to themselves, or no reader could follow them."""


class TypeCodec(NamedTuple):
    """The way in which one family of objects is written and read.

    Args:
        tag: The key that marks the family in a file; starts with `$` and is globally unique.
        handles: Whether an object belongs to the family.
        encode: Object to plain data; the second argument encodes nested values. Dicts in the result are written
            unchanged, so nested user data must go through it.
        decode: Plain data to a fresh object; the second argument decodes nested values.
    """

    tag: str
    handles: Callable[[Any], bool]
    encode: Callable[[Any, Encode], Plain]
    decode: Callable[[Plain, Decode], Any]


class ValueCodec:
    """Encodes values to plain data and decodes them to fresh, equal values of the same type.

    Args:
        types: The families beyond plain data; the first that handles an object, or has its tag, wins.
        last_resort: Writes what no family can write, instead of refusing it.
    """

    def __init__(self, types: Sequence[TypeCodec], last_resort: TypeCodec | None = None) -> None:
        self._types = tuple(types)
        self._last_resort = last_resort
        self._by_tag = {codec.tag: codec for codec in reversed(self._types)}
        self._by_class: dict[type, TypeCodec] = {}

    def extended(self, types: Sequence[TypeCodec]) -> ValueCodec:
        """Return a codec that tries `types` before the families of this one."""
        return ValueCodec((*types, *self._types), self._last_resort)

    def lenient(self, last_resort: TypeCodec) -> ValueCodec:
        """Return a codec that uses `last_resort` for values that no other family handles."""
        return ValueCodec(self._types, last_resort)

    def encode(self, value: Any) -> Plain:
        """Return a deep copy as plain data. Raises `UnrecordableValueError` without a codec, or beyond `MAX_DEPTH`."""
        return self._encode(value, "$", MAX_DEPTH)

    def decode(self, plain: Plain) -> Any:
        """Return a fresh value of what `encode` made. Raises `UnreadableValueError`: unknown tag, or unloaded class."""
        kind = type(plain)
        if kind is list:
            return [self.decode(item) for item in plain]
        if kind is not dict:
            return plain
        if len(plain) == 1:
            (key,) = plain
            if key.startswith("$"):
                try:
                    codec = self._by_tag.get(key)
                    if codec is not None:
                        return codec.decode(plain[key], self.decode)
                    return self._decode_tagged(key, plain[key])
                except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
                    raise UnreadableValueError(
                        key, f"what is recorded under this tag does not fit it ({error})"
                    ) from None
        return {key: item if type(item) is str else self.decode(item) for key, item in plain.items()}

    def _decode_tagged(self, tag: str, body: Plain) -> Any:
        if tag.startswith("$$"):
            return {tag[1:]: self.decode(body)}
        if tag == "$dict":
            return {self.decode(key): self.decode(item) for key, item in body}
        if tag == "$str":
            return _unescaped(body)
        if tag == "$float":
            return float(body)
        raise UnreadableValueError(tag, "no codec for this tag is registered; import the integration that wrote it")

    def _encode(self, value: Any, where: str, depth: int) -> Plain:
        kind = type(value)
        if kind is str:
            return value if value.isascii() or not _has_surrogate(value) else {"$str": _escaped(value)}
        if value is None or kind is bool or kind is int:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if depth == 0:
            raise UnrecordableValueError(where, kind, f"nested deeper than {MAX_DEPTH}, perhaps it refers to itself")
        if kind is list:
            return [self._encode(item, f"{where}[{n}]", depth - 1) for n, item in enumerate(value)]
        return self._encode_dict(value, where, depth - 1) if kind is dict else self._encode_typed(value, where, depth)

    def _encode_typed(self, value: Any, where: str, depth: int) -> Plain:
        try:
            return self._tagged(value, where, depth)
        except UnrecordableValueError:
            if self._last_resort is None:
                raise
            return {self._last_resort.tag: self._last_resort.encode(value, self.encode)}

    def _tagged(self, value: Any, where: str, depth: int) -> Plain:
        codec = self._codec_for(value, where)
        try:
            return {codec.tag: codec.encode(value, lambda item: self._encode(item, f"{where}.{codec.tag}", depth - 1))}
        except RecursionError:
            raise UnrecordableValueError(where, type(value), "it refers to itself") from None
        except UnrecordableValueError as error:
            if error.where != "$":
                raise
            raise UnrecordableValueError(where, error.value_type, error.why) from None  # codecs do not know where

    def _encode_dict(self, value: dict[Any, Any], where: str, depth: int) -> Plain:
        for key in value:
            if type(key) is not str or (not key.isascii() and _has_surrogate(key)):
                pairs = value.items()
                return {
                    "$dict": [
                        [self._encode(k, f"{where}.keys()", depth), self._encode(v, f"{where}[{k!r}]", depth)]
                        for k, v in pairs
                    ]
                }
        if len(value) == 1:
            (key,) = value
            if key.startswith("$"):
                return {f"${key}": self._encode(value[key], f"{where}.{key}", depth)}
        return {
            key: item if type(item) is str and item.isascii() else self._encode(item, f"{where}.{key}", depth)
            for key, item in value.items()
        }

    def _codec_for(self, value: Any, where: str) -> TypeCodec:
        kind = type(value)
        codec = self._by_class.get(kind)
        if codec is None:
            codec = next((codec for codec in self._types if codec.handles(value)), None)
            if codec is None:
                raise UnrecordableValueError(where, kind)
            self._by_class[kind] = codec
        return codec


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _unescaped(text: str) -> str:
    if not _ESCAPED.fullmatch(text):  # Python's own decoder knows more escapes, and warns of others
        raise ValueError("it has an escape that is never written")
    return text.encode("ascii").decode("unicode-escape")


def _escaped(text: str) -> str:
    return text.encode("unicode-escape", "surrogatepass").decode("ascii")
