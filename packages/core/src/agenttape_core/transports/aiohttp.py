"""Requests of `aiohttp`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing
from types import SimpleNamespace
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import current_session
from agenttape_core.schema import Plain
from agenttape_core.transports.bodies import decompressed
from agenttape_core.transports.exchanges import (
    AsyncBody,
    Exchange,
    achunks_of,
    aexchange,
    automatic_session,
    session_call_of,
)
from agenttape_core.transports.patching import client_missing, replacing
from agenttape_core.transports.requests import Destination, Request, joined
from agenttape_core.transports.responses import Head

try:
    import aiohttp
    from aiohttp.client_proto import ResponseHandler
    from multidict import CIMultiDict, CIMultiDictProxy
except ImportError as error:
    raise client_missing("aiohttp", error) from error

_UNREAD = frozenset({204, 301, 302, 303, 304, 307, 308})
"""The statuses of responses without a body, or with an unread one: redirects are followed without it."""
_ENCODINGS = frozenset({"gzip", "deflate", "br", "zstd"})


def automatic() -> AbstractContextManager[None]:
    """Tape all sessions of `aiohttp` while inside; core enters it with the first session that records HTTP.

    A request passes the middlewares of its session first; redirects, cookies and retries are made above those.
    """
    return replacing(aiohttp.ClientSession, "_request", _taping)


def _taping(real: Any) -> Any:
    async def _request(session: Any, method: str, url: Any, **options: Any) -> Any:
        taped = current_session()
        if taped is None or not taped.http:
            return await real(session, method, url, **options)
        if not hasattr(session, "_middlewares"):
            with taped.latch:
                raise ConfigurationError(
                    f"aiohttp {aiohttp.__version__} cannot be recorded: it has no middlewares of clients\n"
                    "  pip install 'aiohttp>=3.12'"
                )
        own = options.pop("middlewares", None)
        chain = session._middlewares if own is None else own  # noqa: SLF001 - aiohttp keeps them nowhere else
        return await real(session, method, url, **options, middlewares=(*chain, _tape))

    return _request


async def _tape(request: Any, handler: Callable[[Any], Any]) -> Any:
    """Replay a request, or send and record it: a middleware of `aiohttp`, the innermost one."""
    url, fields = request.url, joined(request.headers.items())
    destination = Destination.of(url.scheme, url.host, url.port, url.raw_path_qs)
    session = automatic_session(destination, fields)
    if session is None:
        return await handler(request)
    content = decompressed(fields.get("content-encoding", ""), await _content(request))
    asked = Request(request.method, destination, fields, content)
    real: list[Any] = []
    got = await aexchange(
        session, asked, session_call_of(session, asked), lambda body: _chunks(request, handler, real, body)
    )
    return await _response(request, got, real)


async def _content(request: Any) -> bytes:
    """Return the body of a request; what could be read only once is kept for sending."""
    body = request.body
    return body if isinstance(body, bytes) else await body.as_bytes()


async def _chunks(
    request: Any, handler: Callable[[Any], Any], real: list[Any], body: bytes | None
) -> AsyncIterator[Plain]:
    """Send a request, and yield the chunks of its response; `aiohttp` has decompressed the body."""
    if body is not None:
        request.headers.pop("Content-Encoding", None)
        await request.update_body(body)
    response = await handler(request)
    real.append(response)
    try:
        async with aclosing(_pieces(response)) as pieces:
            async for chunk in achunks_of(_head(request, response), pieces):
                yield chunk
    finally:
        response.close()


def _head(request: Any, response: Any) -> Head:
    version = f"HTTP/{response.version.major}.{response.version.minor}".encode()
    extensions = {"http_version": version, "reason_phrase": (response.reason or "").encode("latin-1", "replace")}
    head = Head(response.status, list(response.raw_headers), extensions)
    encoding = response.headers.get("content-encoding", "").lower()
    is_decompressed = request.method != "HEAD" and encoding in _ENCODINGS and request.session.auto_decompress
    return head.without_encoding() if is_decompressed else head


async def _pieces(response: Any) -> AsyncGenerator[bytes, None]:
    while not response.content.at_eof():
        data, _ = await response.content.readchunk()
        if data:
            yield data


async def _response(request: Any, got: Exchange, real: list[Any]) -> Any:
    """Return a response of `aiohttp` that reads an exchange as if it came over a connection."""
    given = {
        "writer": None,  # all is sent
        "continue100": None,
        "timer": request._timer,  # noqa: SLF001 - of the whole request; a middleware is told it in no other way
        "request_info": request.request_info,
        "traces": request._traces,  # noqa: SLF001 - as with the timer
        "loop": request.loop,
        "session": request.session,
        "stream_writer": SimpleNamespace(output_size=0),
    }
    cls = request.response_class
    known = inspect.signature(aiohttp.ClientResponse.__init__).parameters
    response = cls(
        request.method, request.original_url, **{name: value for name, value in given.items() if name in known}
    )
    return await response.start(_Connection(request, got, real))


class _Connection:
    """The connection of a response that is made of an exchange, as far as the response needs one."""

    def __init__(self, request: Any, got: Exchange, real: list[Any]) -> None:
        self._body: AsyncBody = got.body
        self._real = real
        self._callbacks: list[Callable[[], None]] = []
        self.protocol: Any = _Protocol(request, got)
        self.transport = None

    @property
    def closed(self) -> bool:
        return self.protocol is None

    def add_callback(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def release(self) -> None:
        self.close()

    def close(self) -> None:
        """End the recording; neither this nor the closing of a real response ever waits."""
        if self.protocol is None:
            return
        self.protocol = None
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        closing = self._body.aclose()
        try:
            closing.send(None)
        except StopIteration:
            return
        except RuntimeError:  # somebody is waiting for the next piece
            for response in self._real:
                response.close()
        finally:
            closing.close()


class _Protocol(ResponseHandler):
    """Gives a response its head and its body."""

    def __init__(self, request: Any, got: Exchange) -> None:
        super().__init__(request.loop)
        self._head = got.head
        self._reads_ahead = request.method == "HEAD" or got.head.status in _UNREAD or got.body.is_over
        self._content = _Content(self, got, request)

    async def read(self) -> Any:
        raw = tuple(self._head.headers)
        headers = CIMultiDict((_text(name), _text(value)) for name, value in raw)
        extensions = self._head.extensions
        version = extensions.get("http_version", b"HTTP/1.1")
        message = SimpleNamespace(
            version=aiohttp.HttpVersion10 if version == b"HTTP/1.0" else aiohttp.HttpVersion11,
            code=self._head.status,
            reason=_text(extensions.get("reason_phrase", b"")),
            headers=CIMultiDictProxy(headers),
            raw_headers=raw,
        )
        if self._reads_ahead:
            await self._content.read_ahead()
        return message, self._content


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


class _Content(aiohttp.StreamReader):
    """A body that takes its next piece when it is waited for."""

    def __init__(self, protocol: Any, got: Exchange, request: Any) -> None:
        super().__init__(protocol, limit=2**16, timer=request._timer, loop=request.loop)  # noqa: SLF001 - see above
        self._pieces: AsyncBody = got.body
        self._is_chunked = got.head.is_chunked

    async def read_ahead(self) -> None:
        """Read the rest to the end."""
        while not self.is_eof():
            await self._wait("read")

    async def _wait(self, func_name: str) -> None:  # noqa: ARG002 - its caller's name
        try:
            with self._timer:
                data = await anext(self._pieces, None)
                if data:
                    self._feed(data)
                if data is None or self._pieces.is_over:
                    await anext(self._pieces, None)  # so it is recorded as read to its end
                    self.feed_eof()
        except Exception as error:
            self.set_exception(error)
            raise

    def _feed(self, data: bytes) -> None:
        if self._is_chunked:
            self.begin_http_chunk_receiving()
        self.feed_data(data)
        if self._is_chunked:
            self.end_http_chunk_receiving()
