"""The canonical JSON of plain data, and whether it may contain a run-specific id.

Serializing and hashing the texts of a new request takes a third of its time. JSON escapes character by character; most
texts have only line breaks and quotes to escape, which one pass over the text detects.
"""

from __future__ import annotations

import json
from functools import lru_cache

from agenttape_core.format.json_text import note_written
from agenttape_core.matching.run_ids import FIRST_GROUP, may_hold_id
from agenttape_core.schema import Plain

_json_text = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_HEX = b"0123456789abcdefABCDEF"
_ESCAPED = b'\\"\n'
_CLASSES = bytes(
    ord("0") if byte in _HEX else 1 if byte in _ESCAPED else ord("a") if b" " <= bytes([byte]) <= b"~" else 0
    for byte in range(256)
)
"""Hex digits, characters with a short escape (as one), those that JSON escapes in another way (as zero), all others."""
_SHORT = 32
_FEW = 16  # only dicts with up to this many keys have their order cached: messages do, data don't


def canonical_json(plain: Plain) -> str:
    """Return the one JSON text of plain data: ASCII, keys sorted, no white space; `1`, `1.0` and `true` differ."""
    return _json_text(plain)


def canonical_bytes(plain: Plain) -> tuple[bytes, bool]:
    """Return the canonical JSON as bytes, and whether it may hold a run-specific id."""
    if type(plain) is not dict:
        return _written(plain)
    names, may_hold = (_names if len(plain) <= _FEW else _names.__wrapped__)(*plain)
    parts = []
    for key, name in names:
        value = plain[key]
        written, in_value = _short_text(value) if type(value) is str and len(value) < _SHORT else _written(value)
        parts.append(name + written)
        may_hold = may_hold or in_value
    return b"{" + b",".join(parts) + b"}", may_hold


@lru_cache(maxsize=256)
def _names(*keys: str) -> tuple[list[tuple[str, bytes]], bool]:
    """Return the keys of a dict in order, each with its JSON and a colon, and whether one may hold an id."""
    written = [(key, *_written(key)) for key in sorted(keys)]
    return [(key, name + b":") for key, name, _ in written], any(may_hold for _, _, may_hold in written)


def _written(value: Plain) -> tuple[bytes, bool]:
    if type(value) is str and value.isascii():
        raw = value.encode()
        classes = raw.translate(_CLASSES)
        if 0 not in classes:
            if 1 in classes:
                raw = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
            written = b'"' + raw + b'"'
            note_written(value, written.decode())  # what is recorded is written to the journal as well
            return written, classes.rfind(FIRST_GROUP) >= 0
    written = _json_text(value).encode()
    return written, may_hold_id(written)


_short_text = lru_cache(maxsize=1024)(_written)  # roles and names are few, and the same in all requests
