"""Plain data as one line of ASCII JSON, and back, strictly."""

from __future__ import annotations

import json
import re
from typing import Any

from agenttape_core.format.limits import MAX_DEPTH, MAX_VALUES
from agenttape_core.format.malformed import Malformed

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def dump_line(value: Any) -> str:
    """One line of ASCII JSON for plain data that was checked; keys keep their order."""
    return _encode(value)


def has_too_many_values(raw: bytes) -> bool:
    """Return True if JSON separates more values than one record may have."""
    return raw.count(b",") > MAX_VALUES and _STRING.sub(b"", raw).count(b",") > MAX_VALUES


def load_line(raw: bytes) -> Any:
    """Parse one JSON text.

    Raises:
        Malformed: It is no JSON, not UTF-8, too deep, or has duplicate keys, NaN or lone surrogates.
    """
    value, rest = load_prefix(raw)
    if rest.strip(" \t\r\n"):
        raise Malformed("there is more on the line after the JSON value")
    return value


def load_prefix(raw: bytes) -> tuple[Any, str]:
    """Parse the JSON value at the start, and give what follows it."""
    if has_too_many_values(raw):
        raise Malformed(f"more than {MAX_VALUES} values in one record")
    try:
        text = raw.decode().lstrip(" \t")
        value, end = _decoder.raw_decode(text)
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 text: {error.reason}") from None
    except RecursionError:
        raise Malformed(f"nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise Malformed(f"not JSON: {error}") from None
    # Few brackets cannot nest deeply: most records are spared the walk.
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if "\\ud" in text or "\\uD" in text:
        _check_surrogates(value)
    return value, text[end:]


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise Malformed(f"nested deeper than {MAX_DEPTH} levels")


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Malformed("a string holds a lone surrogate") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} appears twice")
    return found


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
