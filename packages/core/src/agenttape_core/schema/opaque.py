"""Opaque values: placeholders for values without a codec, if the user allows it: `accept={"opaque"}`."""

from __future__ import annotations

from typing import Any, NoReturn

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema.plain import Plain
from agenttape_core.schema.values import Decode, Encode, TypeCodec

_ADDRESS = Lazy(r"\b0x[0-9a-fA-F]{4,16}\b")
_MAX_TEXT = 500


class Opaque:
    """Stands on replay for a recorded value that could not be kept. It can be passed around, compared and shown.

    Args:
        type_name: The type of the value that was there.
        text: What its `repr` was, without memory addresses, cut to 500 characters.
    """

    __slots__ = ("text", "type_name")

    def __init__(self, type_name: str, text: str) -> None:
        self.type_name = type_name
        self.text = text

    def __repr__(self) -> str:
        return f"<recorded {self.type_name}: {self.text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and (self.type_name, self.text) == (other.type_name, other.text)

    def __hash__(self) -> int:
        return hash((self.type_name, self.text))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{name!r}: this is an opaque value, recorded of a {self.type_name}, which had no codec "
            "(accept={'opaque'}); what needs the real one cannot be replayed"
        )


def _told(value: Any) -> tuple[str, str]:
    if isinstance(value, Opaque):
        return value.type_name, value.text
    cls = type(value)
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a repr of user code; the value is told by its type alone
        text = f"(its repr raised {type(error).__name__})"
    return f"{cls.__module__}.{cls.__qualname__}", _ADDRESS.sub("0x…", text)[:_MAX_TEXT]


def _encode(value: Any, nested: Encode) -> Plain:
    type_name, text = _told(value)
    return {"type": type_name, "text": nested(text)}


def _decode(plain: Any, nested: Decode) -> Opaque:
    return Opaque(str(plain["type"]), str(nested(plain["text"])))


OPAQUE = TypeCodec("$opaque", lambda value: isinstance(value, Opaque), _encode, _decode)
"""Writes opaque values again unchanged; as the last resort of a `ValueCodec`, it writes any value as one."""
