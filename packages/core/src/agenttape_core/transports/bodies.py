"""Bodies of messages as chunks, and back: text where they are text, byte for byte."""

from __future__ import annotations

import codecs
import re
import zlib

from agenttape_core.errors import UnreadableValueError
from agenttape_core.schema import Plain

_EVENTS = "text/event-stream"
_DONE = re.compile(rb"(?:\A|[\r\n])data: ?\[DONE\](?:\r\n\r\n|\n\n|\r\r)\Z")
_DONE_LENGTH = 32  # the last bytes of a body, in which `_DONE` is looked for
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""The formats that `zlib` reads, by the content encodings (RFC 9110 §8.4.1)."""
TEXT, BYTES, SPLIT = "text", "bytes", "split"
_TEXTUAL = re.compile(
    r"text/|application/(?:(?:x-)?(?:json|ndjson|jsonl|jsonlines|json-seq|javascript|yaml|toml|www-form-urlencoded)"
    r"|xml|xhtml|graphql|sql)\b|[^;]*\+(?:json|xml|yaml)\b",
    re.IGNORECASE,
)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)
_SINGLE_BYTE = frozenset({"iso8859-1", "iso8859-15", "cp1252"})
"""Charsets beside UTF-8 that are still seen, as Python names them. Text in others is kept as if it were UTF-8."""


def is_text(content_type: str) -> bool:
    """Return whether a content type (RFC 9110 §8.3) promises text."""
    return _TEXTUAL.match(content_type) is not None


def charset_of(content_type: str) -> str:
    """Return the charset of a content type; other bytes become lone surrogates (PEP 383), so none is lost."""
    declared = _CHARSET.search(content_type)
    try:
        name = codecs.lookup(declared[1]).name if declared else "utf-8"
    except LookupError:
        return "utf-8"
    return name if name in _SINGLE_BYTE else "utf-8"


def whole(content_type: str, data: bytes) -> str | bytes:
    """Return a whole body as text if its type promises that, or if there's no type and it's UTF-8; else unchanged."""
    if is_text(content_type):
        return data.decode(charset_of(content_type), "surrogateescape")
    return data if content_type or not _is_utf8(data) else data.decode()


def decompressed(encoding: str, data: bytes) -> bytes:
    """Return a whole body of a request without its content encoding; unchanged if it isn't encoded."""
    window = _WINDOWS.get(encoding.strip().lower())
    try:
        return zlib.decompress(data, window) if window is not None else data
    except zlib.error:
        return data


def _is_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8, but for a last character that is not whole."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


class _Ending:
    """Detects the event that ends a stream of events by convention (OpenAI's, and of all that speak its protocol).

    Some clients close the response there, others wait a moment for its end. So the event is taken for the end: else the
    recording would depend on that moment.
    """

    def __init__(self, content_type: str) -> None:
        self._possible = content_type.lower().startswith(_EVENTS)
        self._last = b""

    def follow(self, data: bytes) -> None:
        """Look at the next piece of the body."""
        if self._possible:
            self._last = (self._last + data)[-_DONE_LENGTH:]

    @property
    def reached(self) -> bool:
        """True once the last event was the final one."""
        return _DONE.search(self._last) is not None


class BodyWriter:
    """Makes chunks of the pieces of a body.

    A character may be split between two pieces. It is text where it becomes whole; the piece before holds the bytes it
    had of it under `split`. So a secret is found across the border, and the border is kept. `content_type` is the
    header.
    """

    def __init__(self, content_type: str) -> None:
        self._content_type = content_type
        self._decoder = codecs.getincrementaldecoder(charset_of(content_type))("surrogateescape")
        self._is_text = is_text(content_type) if content_type else None
        self._ending = _Ending(content_type)

    @property
    def is_over(self) -> bool:
        """True once no more is to come, although the connection may still be open."""
        return self._ending.reached

    def chunk(self, data: bytes) -> Plain:
        """Return the chunk of the next piece."""
        self._ending.follow(data)
        if self._is_text is None:
            self._is_text = _is_utf8(data)
        if not self._is_text:
            return {BYTES: data}
        text, rest = self._decoder.decode(data), self._decoder.getstate()[0]
        return {TEXT: text, SPLIT: rest} if rest else {TEXT: text}


class BodyReader:
    """Makes the pieces of a body of its chunks, in the same order.

    `content_type` is the header, and `length` the number of bytes that the body has, if that is known: a client that
    has them all may stop.
    """

    def __init__(self, content_type: str, length: int | None = None) -> None:
        self._charset = charset_of(content_type)
        self._split = b""
        self._ending = _Ending(content_type)
        self._left = length

    @property
    def is_over(self) -> bool:
        """True once no more is to come; see `BodyWriter.is_over`."""
        return self._ending.reached or (self._left is not None and self._left <= 0)

    def data(self, chunk: Plain) -> bytes:
        """Return the next piece. Raises `UnreadableValueError` if an edited chunk isn't one of a body."""
        try:
            data = bytes(chunk[BYTES]) if BYTES in chunk else self._encoded(chunk)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise UnreadableValueError("of an HTTP body", "a chunk is neither text nor bytes") from None
        self._ending.follow(data)
        if self._left is not None:
            self._left -= len(data)
        return data

    def _encoded(self, chunk: Plain) -> bytes:
        before, self._split = self._split, bytes(chunk.get(SPLIT, b""))
        data: bytes = chunk[TEXT].encode(self._charset, "surrogateescape") + self._split
        return data.removeprefix(before)  # unless a pseudonym took the place of the character
