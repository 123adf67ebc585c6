"""HTTP responses as chunks, and back: the first chunk is the head, the others are the body."""

from __future__ import annotations

from dataclasses import dataclass

from agenttape_core.errors import UnreadableValueError
from agenttape_core.schema import Plain

_KEPT = ("http_version", "reason_phrase")
"""The extensions that clients read of a response; all others belong to a connection."""
_COOKIE = "set-cookie"
_BODY_HEADERS = frozenset({b"content-encoding", b"content-length"})
"""The headers that no longer hold for a body that was decompressed."""

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Head:
    """A response without its body."""

    status: int  # the status code
    headers: RawHeaders  # all headers, as sent and in order
    extensions: dict[str, bytes]  # further facts: `http_version`, `reason_phrase`, and others that are not recorded

    def without_encoding(self) -> Head:
        """Return the head of the same response, whose body is passed on without its content encoding."""
        kept = [(name, value) for name, value in self.headers if name.lower() not in _BODY_HEADERS]
        return Head(self.status, kept, self.extensions)

    def first(self, name: str) -> str:
        """Return the first header of a name, given in lower case; empty if there is none."""
        wanted = name.encode()
        return next((_text(value) for name, value in self.headers if name.lower() == wanted), "")

    @property
    def content_type(self) -> str:
        """The `content-type`, empty if there is none."""
        return self.first("content-type")

    @property
    def length(self) -> int | None:
        """The `content-length`; `None` if there is none."""
        length = self.first("content-length")
        return int(length) if length.isdecimal() else None

    @property
    def is_chunked(self) -> bool:
        """True if the body was sent in chunks (RFC 9112 §7.1)."""
        return "chunked" in self.first("transfer-encoding").lower()

    def chunk(self) -> Plain:
        """Return the chunk that is recorded."""
        kept = {name: _text(self.extensions[name]) for name in _KEPT if name in self.extensions}
        return {"status": self.status} | kept | {"headers": [_recorded(*pair) for pair in self.headers]}

    @classmethod
    def read(cls, chunk: Plain) -> Head:
        """Return the head that a chunk holds. Raises `UnreadableValueError` if an edited one holds none."""
        try:
            headers = [_header(item) for item in chunk["headers"]]
            extensions = {name: _bytes(chunk[name]) for name in _KEPT if name in chunk}
            return cls(int(chunk["status"]), headers, extensions)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise UnreadableValueError("of an HTTP response", "its first chunk isn't a status with headers") from None


def _recorded(raw_name: bytes, raw_value: bytes) -> Plain:
    """Return a header as a dict, for the redactor. In a cookie, only the value is secret: clients look it up."""
    name, value = _text(raw_name), _text(raw_value)
    pair, semicolon, attributes = value.partition(";")
    cookie, equals, secret = pair.partition("=")
    if name.lower() != _COOKIE or not equals:
        return {name: value}
    return {"cookie_name": cookie, name: secret} | ({"attributes": attributes} if semicolon else {})


def _header(item: dict[str, str]) -> tuple[bytes, bytes]:
    if len(item) == 1:
        ((name, value),) = item.items()
        return _bytes(name), _bytes(value)
    (name,) = item.keys() - {"cookie_name", "attributes"}
    attributes = f";{item['attributes']}" if "attributes" in item else ""
    return _bytes(name), _bytes(f"{item['cookie_name']}={item[name]}{attributes}")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
