"""HTTP responses as chunks, and back: the first chunk is the head, the others are the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    """A response without its body.

    Args:
        status: The status code.
        headers: All headers as they were sent, in their order.
        extensions: Further facts of the transport: `http_version`, `reason_phrase`.
    """

    status: int
    headers: RawHeaders
    extensions: dict[str, bytes]

    @classmethod
    def of(cls, response: Any, *, decompressed: bool) -> Head:
        """Return the head of a response of `httpx` or `httpx2`.

        Args:
            response: The response of a transport.
            decompressed: Whether its body is passed on without its content encoding.
        """
        dropped = _BODY_HEADERS if decompressed else frozenset()
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in dropped]
        extensions = {name: response.extensions[name] for name in _KEPT if name in response.extensions}
        return cls(response.status_code, headers, extensions)

    @property
    def content_type(self) -> str:
        """The first `content-type`, empty if there is none."""
        return next((_text(value) for name, value in self.headers if name.lower() == b"content-type"), "")

    def chunk(self) -> Plain:
        """Return the chunk that is recorded."""
        kept = {name: _text(value) for name, value in self.extensions.items()}
        return {"status": self.status} | kept | {"headers": [_recorded(*pair) for pair in self.headers]}

    @classmethod
    def read(cls, chunk: Plain) -> Head:
        """Return the head that a chunk holds.

        Raises:
            UnreadableValueError: It holds none, because someone has edited the cassette.
        """
        try:
            headers = [_header(item) for item in chunk["headers"]]
            extensions = {name: _bytes(chunk[name]) for name in _KEPT if name in chunk}
            return cls(int(chunk["status"]), headers, extensions)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise UnreadableValueError("of an HTTP response", "its first chunk is no status with headers") from None


def _recorded(raw_name: bytes, raw_value: bytes) -> Plain:
    """Return a header as a dict, since the redactor goes by its name.

    Of a cookie only the value is secret: a client must find the cookie on replay.
    """
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
