"""Plain data as one line of ASCII JSON, and back, strictly."""

from __future__ import annotations

import json.encoder
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

from agenttape_core.format.limits import MAX_DEPTH, MAX_VALUES
from agenttape_core.format.malformed import Malformed
from agenttape_core.lazy_patterns import Lazy

_STRING = Lazy(rb'"(?:[^"\\]|\\.)*+"')
_encoder = json.JSONEncoder(ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":"))
_MAX_TEXTS = 1_000_000  # the number of characters of JSON that are held with their texts
_ENTRY = 100  # each entry's own size, without which millions of short ones would be free


class _TextsWritten(dict[str, str]):
    """Texts with their JSON, from the latest requests: after hashing, the same text is written to the journal.

    It only ever holds what goes into cassettes, and forgets all when it is full.
    """

    size = 0

    def __missing__(self, text: str) -> str:
        return self.note(text, encode_basestring_ascii(text))

    def note(self, text: str, written: str) -> str:
        """Remember the JSON of a text, and return it."""
        share = len(written) + _ENTRY
        if share <= _MAX_TEXTS:
            self.size += share
            if self.size > _MAX_TEXTS:
                self.clear()
                self.size = share
            self[text] = written
        return written


_texts = _TextsWritten()
note_written = _texts.note


def _line_encoder() -> Callable[[Any, int], Sequence[str]] | None:
    """Return the encoder of the standard library with our way to write a text; `None` if Python has none in C."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return None
    options = {"indent": None, "key_separator": ":", "item_separator": ","}
    flags = {"sort_keys": False, "skipkeys": False, "allow_nan": False}
    found: Callable[[Any, int], Sequence[str]] = make(
        markers=None, default=_encoder.default, encoder=_texts.__getitem__, **options, **flags
    )
    return found


_pieces = _line_encoder()


def dump_line(value: Any) -> str:
    """One line of ASCII JSON for plain data that was checked; keys keep their order."""
    return "".join(_pieces(value, 0)) if _pieces is not None else _encoder.encode(value)


def has_too_many_values(raw: bytes) -> bool:
    """Return True if JSON separates more values than one record may have."""
    return raw.count(b",") > MAX_VALUES and _STRING.sub(b"", raw).count(b",") > MAX_VALUES


def load_line(raw: bytes) -> Any:
    """Parse one JSON text.

    Raises `Malformed` if it isn't JSON, isn't UTF-8, is nested too deeply, or has duplicate keys, NaN or lone
    surrogates.
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
