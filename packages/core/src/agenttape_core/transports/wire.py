"""Responses of `http.client` made of an exchange, and the other way round: `urllib3` and `requests` build upon them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPResponse
from typing import Any

from agenttape_core.integration import Session
from agenttape_core.schema import Plain
from agenttape_core.transports.bodies import decompressed
from agenttape_core.transports.exchanges import Body, Exchange, chunks_of, exchange, session_call_of
from agenttape_core.transports.requests import Destination, Request
from agenttape_core.transports.responses import Head

_VERSIONS = {10: b"HTTP/1.0", 11: b"HTTP/1.1"}
_PIECE = 65536


def head_of(response: Any, headers: Iterable[tuple[str, str]]) -> Head:
    """Return the head of a real response of `http.client`, with its headers as sent."""
    extensions = {"http_version": _VERSIONS.get(response.version, b"HTTP/1.1")}
    if response.reason is not None:
        extensions["reason_phrase"] = response.reason.encode("latin-1", "replace")
    return Head(response.status, [(_raw(name), _raw(value)) for name, value in headers], extensions)


def _raw(text: str) -> bytes:
    """Return the sent text of a header on one line: the standard library reads it as Latin-1."""
    return " ".join(str(text).splitlines()).encode("latin-1", "replace")


def response_of(method: str, got: Exchange) -> HTTPResponse:
    """Return a response of the standard library that reads an exchange as if it came over a socket."""
    response: HTTPResponse = HTTPResponse(_Socket(_Wire(got)), method=method)  # type: ignore[arg-type]
    response.begin()
    if response.length:
        response.length = None  # a text with a pseudonym in it has another length; the end of the pieces is the end
    return response


class _Socket:
    """The part of a socket that a response reads from."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(self._wire, _PIECE)


class _Wire(io.RawIOBase):
    """The bytes of a response as a server sends them, each piece of the body when it's needed."""

    def __init__(self, got: Exchange) -> None:
        self._body: Body = got.body
        self._bytes = self._pieces(got.head)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        into = memoryview(buffer)
        self._rest = self._rest or next(self._bytes, b"")
        size = min(len(into), len(self._rest))
        into[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()

    def _pieces(self, head: Head) -> Iterator[bytes]:
        version = head.extensions.get("http_version", b"")
        shown = version if version in _VERSIONS.values() else _VERSIONS[11]
        lines = [b"%s %d %s" % (shown, head.status, head.extensions.get("reason_phrase", b""))]
        lines += [b"%s: %s" % header for header in head.headers]
        yield b"\r\n".join([*lines, b"", b""])
        pieces = filter(None, self._body)
        if not head.is_chunked:
            yield from pieces
            return
        for piece in pieces:
            yield b"%x\r\n%s\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"


def content_of(body: Any) -> Any:
    """Return the body of a request read to its end: bytes, a text or `None`; a form that is read only once is kept.

    The body is as clients of the standard library take it: bytes, a text, a file, or an iterable of either.
    """
    if body is None or isinstance(body, bytes | str):
        return body
    if hasattr(body, "read"):
        return body.read()
    try:
        return bytes(memoryview(body))
    except TypeError:
        return b"".join(as_bytes(piece) for piece in body)


def as_bytes(content: Any) -> bytes:
    """Return content in the form it's sent."""
    if content is None:
        return b""
    return content.encode() if isinstance(content, str) else bytes(content)


def request_of(method: str, destination: Destination, fields: dict[str, str], content: Any) -> Request:
    """Return a request, given its content as `content_of` returns it."""
    return Request(method, destination, fields, decompressed(fields.get("content-encoding", ""), as_bytes(content)))


def exchanged(session: Session, asked: Request, send: Callable[[bytes | None], Any]) -> HTTPResponse:
    """Replay a request of the standard library, or `send` it for a response of `http.client`, and record it."""
    session_call = session_call_of(session, asked)
    return response_of(asked.method, exchange(session, asked, session_call, lambda body: _chunks(send, body)))


def _chunks(send: Callable[[bytes | None], Any], body: bytes | None) -> Iterator[Plain]:
    response = send(body)
    try:
        head = head_of(response, response.headers.items())
        yield from chunks_of(head, iter(lambda: response.read1(_PIECE), b""))
    finally:
        response.close()
