"""The part of transports that all clients share: the crossing of a request, and its stream of head and body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import aclosing
from threading import Lock
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import (
    Boundary,
    Crossing,
    Session,
    aintercept_stream,
    current_session,
    intercept_stream,
)
from agenttape_core.schema import Plain
from agenttape_core.transports.bodies import BodyReader, BodyWriter
from agenttape_core.transports.clients import Client
from agenttape_core.transports.requests import header_names, question_of
from agenttape_core.transports.responses import Head

HTTP = Boundary("http")

TransportT = TypeVar("TransportT")


class _Taping(Generic[TransportT]):
    """A transport around another one, sync or async; a subclass has the `client`.

    Args:
        inner: The transport that really sends; by default the client's own, made when it is first needed.
        headers: Names of headers that take part in what is asked, besides `accept` and `content-type`.

    Raises:
        ConfigurationError: `headers` is no collection of header names.
    """

    client: ClassVar[Client]

    def __init__(self, inner: TransportT | None = None, *, headers: Collection[str] = ()) -> None:
        self._inner: Any = inner
        self._names = header_names(headers)
        self._lock = Lock()

    def _real(self) -> Any:
        """Return the transport that really sends; making one takes long, and a replay needs none."""
        with self._lock:
            if self._inner is None:
                self._inner = self.client.transport()
            return self._inner

    def _cross(self, session: Session, request: Any, content: bytes) -> Crossing:
        headers = request.headers
        if "upgrade" in headers:
            with session.latching():
                raise ConfigurationError(
                    f"{request.url.host}: a connection that becomes a WebSocket cannot be recorded\n"
                    "  give the client another transport for it: mounts={'all://HOST': ...}"
                )
        plain = self.client.decompressed(headers.get("content-encoding", ""), content)
        return session.cross(HTTP, request.url.host, question_of(request, self._names, plain))

    def _recorder(self, request: Any, response: Any) -> tuple[Head, BodyWriter]:
        """Return the head of a real response, and the writer of its body.

        The body is recorded as the client decompresses it, so that the redactor can read it.
        """
        encoding = response.headers.get("content-encoding", "")
        has_body = request.method != "HEAD"  # else the headers describe the body that GET would have
        head = Head.of(response, decompressed=has_body and self.client.decompresses(encoding))
        return head, BodyWriter(head.content_type)

    def _response(self, session: Session, first: Plain, chunks: Any, live: dict[str, Any]) -> Any:
        """Return a response; a client gets the same whether it is served or recorded.

        Args:
            session: The session of the call.
            first: The first chunk.
            chunks: The other chunks, not read yet.
            live: The extensions of the real response, if there is one; they hold its connection.
        """
        with session.latching():
            head = Head.read(first)
        return self.client.response(
            head.status,
            headers=head.headers,
            stream=self.client.body(chunks, BodyReader(head.content_type)),
            extensions={**head.extensions, **live},
        )


class Body:
    """The body of a response, served or recorded while it is read.

    Args:
        chunks: The chunks that are left of the response.
        reader: Makes bytes of them.
    """

    def __init__(self, chunks: Any, reader: BodyReader) -> None:
        self._chunks = chunks
        self._reader = reader

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._reader.data(next(self._chunks))

    def close(self) -> None:
        """End the recording; the unread rest is not part of it."""
        if self._reader.is_over:
            next(self._chunks, None)  # so it is recorded as read to its end
        self._chunks.close()


class AsyncBody:
    """Like `Body`, of an async client."""

    def __init__(self, chunks: Any, reader: BodyReader) -> None:
        self._chunks = chunks
        self._reader = reader

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return self._reader.data(await anext(self._chunks))

    async def aclose(self) -> None:
        """End the recording; the unread rest is not part of it."""
        if self._reader.is_over:
            await anext(self._chunks, None)  # so it is recorded as read to its end
        await self._chunks.aclose()


class Taping(_Taping[TransportT]):
    """The sync transports: the base of `TapeTransport` for each client."""

    def handle_request(self, request: Any) -> Any:
        """Serve a request, or send and record it; outside any session only send it.

        Raises:
            CassetteMissError: It was not recorded, and may not be sent.
        """
        session = current_session()
        if session is None:
            return self._real().handle_request(request)
        crossing = self._cross(session, request, request.read())
        live: dict[str, Any] = {}
        chunks = intercept_stream(crossing, lambda: self._exchange(request, live))
        return self._response(session, next(chunks, None), chunks, live)

    def _exchange(self, request: Any, live: dict[str, Any]) -> Iterator[Plain]:
        response = self._real().handle_request(request)
        try:
            live.update(response.extensions)
            head, body = self._recorder(request, response)
            yield head.chunk()
            for data in response.iter_bytes():
                yield body.chunk(data)
                if body.is_over:
                    break
        finally:
            response.close()

    def __enter__(self) -> Self:
        if self._inner is not None:
            self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._inner is not None:
            self._inner.__exit__(*error)

    def close(self) -> None:
        """Close the transport that really sends."""
        if self._inner is not None:
            self._inner.close()


class AsyncTaping(_Taping[TransportT]):
    """The async transports: the base of `AsyncTapeTransport` for each client."""

    async def handle_async_request(self, request: Any) -> Any:
        """Serve a request, or send and record it; outside any session only send it.

        Raises:
            CassetteMissError: It was not recorded, and may not be sent.
        """
        session = current_session()
        if session is None:
            return await self._real().handle_async_request(request)
        crossing = self._cross(session, request, await request.aread())
        live: dict[str, Any] = {}
        chunks = aintercept_stream(crossing, lambda: self._exchange(request, live))
        return self._response(session, await anext(chunks, None), chunks, live)

    async def _exchange(self, request: Any, live: dict[str, Any]) -> AsyncIterator[Plain]:
        response = await self._real().handle_async_request(request)
        try:
            live.update(response.extensions)
            head, body = self._recorder(request, response)
            yield head.chunk()
            async with aclosing(response.aiter_bytes()) as pieces:
                async for data in pieces:
                    yield body.chunk(data)
                    if body.is_over:
                        break
        finally:
            await response.aclose()

    async def __aenter__(self) -> Self:
        if self._inner is not None:
            await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._inner is not None:
            await self._inner.__aexit__(*error)

    async def aclose(self) -> None:
        """Close the transport that really sends."""
        if self._inner is not None:
            await self._inner.aclose()


def sync_client(module: ModuleType) -> Client:
    """Return the classes of a client of the family of `httpx`, for sync transports.

    Args:
        module: `httpx`, or a module with the same names.
    """
    body = type("Body", (Body, module.SyncByteStream), {})
    return Client(module.Response, body, module.DecodingError, module.HTTPTransport)


def async_client(module: ModuleType) -> Client:
    """Like `sync_client`, for async transports."""
    body = type("AsyncBody", (AsyncBody, module.AsyncByteStream), {})
    return Client(module.Response, body, module.DecodingError, module.AsyncHTTPTransport)
