"""The canonical JSON of plain data, and whether a run-specific id may stand in it.

Writing and digesting the texts of a new request is a third of what it costs. JSON escapes character by character;
most texts have only line breaks and quotes to escape, and one pass over the text tells so.
"""

from __future__ import annotations

import json
from functools import lru_cache

from agenttape_core.format.json_text import note_written
from agenttape_core.matching.run_ids import FIRST_GROUP, may_hold_id
from agenttape_core.schema import Plain

_json_text = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_HEX = b"0123456789abcdefABCDEF"
_CLASSES = bytes(
    ord("0") if byte in _HEX else ord("a") if b" " <= bytes([byte]) <= b"~" or byte == ord("\n") else 0
    for byte in range(256)
)
"""Hex digits, characters that JSON escapes in a way of their own (as zero), and all others."""
_BACKSLASH, _QUOTE, _BREAK = b'\\"\n'
_SHORT = 32


def canonical_json(plain: Plain) -> str:
    """Return the one JSON text of plain data: ASCII, keys sorted, no white space; `1`, `1.0` and `true` differ."""
    return _json_text(plain)


def canonical_bytes(plain: Plain) -> tuple[bytes, bool]:
    """Return the canonical JSON as bytes, and whether it may hold a run-specific id."""
    if type(plain) is not dict:
        return _written(plain)
    parts, may_hold = [], False
    for key in sorted(plain):
        value = plain[key]
        name, in_name = _short_text(key)
        written, in_value = _short_text(value) if type(value) is str and len(value) < _SHORT else _written(value)
        parts.append(name + b":" + written)
        may_hold = may_hold or in_name or in_value
    return b"{" + b",".join(parts) + b"}", may_hold


def _written(value: Plain) -> tuple[bytes, bool]:
    if type(value) is str and value.isascii():
        raw = value.encode()
        classes = raw.translate(_CLASSES)
        if 0 not in classes:
            if _BACKSLASH in raw:
                raw = raw.replace(b"\\", b"\\\\")
            if _QUOTE in raw:
                raw = raw.replace(b'"', b'\\"')
            if _BREAK in raw:
                raw = raw.replace(b"\n", b"\\n")
            written = b'"' + raw + b'"'
            note_written(value, written.decode())  # what is recorded is written to the journal as well
            return written, classes.find(FIRST_GROUP) >= 0
    written = _json_text(value).encode()
    return written, may_hold_id(written)


_short_text = lru_cache(maxsize=1024)(_written)
"""Keys, roles and names are few, and the same in all requests."""
