"""Large binary parts: in a record stands a reference, beside the cassette a file named by its content.

Binary data in plain data is text in base64: the body of a `$bytes` tag, a separate string, or the end of a `data:`
URL (RFC 2397). A long one is replaced by `{"$asset": {...}}`, and the rest of a record is unchanged.
"""

from __future__ import annotations

import binascii
import hashlib
import marshal
from functools import cache
from typing import TYPE_CHECKING, Any

from agenttape_core.format import limits
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.records import ASSET
from agenttape_core.format.written_steps import CARRIED, Stored, WrittenStep
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttape_core.redaction import Redactor

_PLAIN = "plain"
_ENCODING = "base64"
_SHORTEST_TEXT = limits.MIN_ASSET_BYTES * 4 // 3
DATA_URL = Lazy(r"data:[^,\s]{0,200};base64,")  # the part of a `data:` URL before its base64
_NAME = Lazy(r"[0-9a-f]{64}(?:\.[a-z0-9]{1,5})?")
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"GIF8": ".gif",
    b"%PDF-": ".pdf",
    b"PK\x03\x04": ".zip",
    b"OggS": ".ogg",
    b"fLaC": ".flac",
    b"ID3": ".mp3",
    b"\x1a\x45\xdf\xa3": ".webm",
}
_RIFF = {b"WAVE": ".wav", b"WEBP": ".webp"}


class Found(NamedTuple):
    """Binary data in a text."""

    before: str  # the text before it: empty, or the head of a `data:` URL
    data: bytes


def find_binary(text: str) -> Found | None:
    """The binary data that a text holds, if it is at least `MIN_ASSET_BYTES` and the text can be made of it again.

    Data in which a secret becomes readable outside base64 isn't moved: it stays unchanged.
    """
    if len(text) < _SHORTEST_TEXT:
        return None
    head = DATA_URL.match(text)
    before = head[0] if head else ""
    payload = text[len(before) :]
    try:
        data = binascii.a2b_base64(payload, strict_mode=True)
    except ValueError:
        return None
    if len(data) < limits.MIN_ASSET_BYTES or _encoded(data) != payload or _holds_secret(data):
        return None
    return Found(before, data)


def file_name(data: bytes) -> str:
    """The name of the file with this content: its SHA-256, and a suffix for viewers if its signature is known."""
    suffix = next((suffix for start, suffix in _SIGNATURES.items() if data.startswith(start)), "")
    if data.startswith(b"RIFF"):
        suffix = _RIFF.get(data[8:12], "")
    return hashlib.sha256(data).hexdigest() + suffix


def is_file_name(name: object) -> bool:
    """Return True if a name comes from `file_name`: no part of it leads to another folder."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def names_assets(record: dict[str, Any]) -> bool:
    """Return True if a record, in stored form, may hold references to assets."""
    return ASSET.encode() in marshal.dumps(record, 2)


def detach(record: Stored, assets: dict[str, bytes]) -> Stored:
    """Return a record, unchanged itself, with references for its large binary parts, which go to `assets`."""
    if isinstance(record, WrittenStep):
        if len(record.text) < _SHORTEST_TEXT and ASSET not in record.text:
            return record
        record = record.as_dict()
    raw = marshal.dumps(record, 2)  # most records are small, and this costs a tenth of walking through them
    if len(raw) < _SHORTEST_TEXT and ASSET.encode() not in raw:
        return record
    detaching = _Detaching(assets)
    if "step" in record:
        return {**record, **detaching.items({part: record[part] for part in CARRIED if part in record})}
    parts = {part: detaching.items(record[part]) for part in ("request", "outcome")}
    return {**record, **parts}


def attach(part: dict[str, Any], read: Callable[[str, int], bytes], *, shows_lost: bool = False) -> dict[str, Any]:
    """The request or the outcome of a record, or a step's data, with its large binary parts put back.

    `read` is given the name and the size in bytes. With `shows_lost`, a sentence takes the place of a file that is
    missing or changed; only for people who read, as replayed and checked values must equal the recorded ones. Raises
    `Malformed` if a reference is invalid, or its target is missing, changed or too large.
    """
    attaching = _Attaching(read, shows_lost=shows_lost)
    return {key: attaching.value(value) for key, value in part.items()}


class _Detaching:
    def __init__(self, assets: dict[str, bytes]) -> None:
        self._assets = assets
        self._left = limits.MAX_RECORD_BYTES

    def items(self, part: dict[str, Any]) -> dict[str, Any]:
        """The keys of a request, an outcome or a step are words of the format: a single one isn't a tag."""
        return {key: self._value(value, 3) for key, value in part.items()}

    def _value(self, value: Any, depth: int) -> Any:
        """`depth` is the level that the value has if it is a list or dict; the record is of level 1."""
        if isinstance(value, str):
            return self._text(value) if depth < limits.MAX_DEPTH else value  # a reference has two levels
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        inner = {key: self._value(item, depth + 1) for key, item in value.items()}
        return {ASSET: {_PLAIN: inner[ASSET]}} if inner.keys() == {ASSET} else inner

    def _text(self, text: str) -> Any:
        found = find_binary(text)
        if found is None or len(found.data) > self._left:
            return text
        self._left -= len(found.data)
        name = file_name(found.data)
        self._assets[name] = found.data
        reference = {"file": name, "bytes": len(found.data), "as": _ENCODING}
        return {ASSET: {**reference, "before": found.before} if found.before else reference}


_NESTING = frozenset({dict, list})  # parsed values that may hold others. Most are none, and there are many.


class _Attaching:
    def __init__(self, read: Callable[[str, int], bytes], *, shows_lost: bool) -> None:
        self._read = read
        self._shows_lost = shows_lost
        self._left = limits.MAX_RECORD_BYTES

    def value(self, value: Any) -> Any:
        """One value; references are looked for at every level."""
        if isinstance(value, list):
            return [self.value(item) if type(item) in _NESTING else item for item in value]
        if not isinstance(value, dict):
            return value
        if ASSET not in value or len(value) > 1:
            return {key: self.value(item) if type(item) in _NESTING else item for key, item in value.items()}
        body = value[ASSET]
        if isinstance(body, dict) and body.keys() == {_PLAIN}:
            return {ASSET: self.value(body[_PLAIN])}
        return self._text(body)

    def _text(self, body: Any) -> str:
        if not isinstance(body, dict) or body.keys() | {"before"} != {"file", "bytes", "as", "before"}:
            raise Malformed(f"`{ASSET}` must have `file`, `bytes`, `as`, perhaps `before`, and nothing else")
        name, size, before = body["file"], body["bytes"], body.get("before", "")
        if not is_file_name(name):
            raise Malformed(f"the asset {str(name)[:80]!r} is not named by 64 hex digits, and perhaps a suffix")
        if body["as"] != _ENCODING or not isinstance(before, str) or type(size) is not int or size < 0:
            raise Malformed(f"the reference to the asset {name} has values of the wrong type")
        self._left -= size
        if self._left < 0:
            raise Malformed(f"the assets of the record are larger than the limit of {limits.MAX_RECORD_BYTES} bytes")
        try:
            return before + _encoded(self._verified(name, size))
        except Malformed as lost:
            if self._shows_lost:
                return f"[{lost}]"
            raise

    def _verified(self, name: str, size: int) -> bytes:
        data = self._read(name, size)
        if len(data) != size or hashlib.sha256(data).hexdigest() != name[:64]:
            raise Malformed(f"the asset {name} was changed: it is not what was recorded{_why(data, size)}")
        return data


def _why(data: bytes, size: int) -> str:
    """A guess at the cause of a changed asset."""
    if len(data) <= size or b"\r\n" not in data:
        return ""
    return " (if git changed the ends of its lines, put `**/*.assets/** binary` into .gitattributes: agenttape init)"


def _encoded(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _holds_secret(data: bytes) -> bool:
    try:
        text, strict = data.decode(), False
    except UnicodeDecodeError:
        text, strict = data.decode("latin-1"), True  # as in redaction itself
    return bool(_redactor().spans(text, strict=strict))


@cache
def _redactor() -> Redactor:
    from agenttape_core.redaction import Redactor, new_key  # who only reads assets needs none of it

    return Redactor(new_key())
