"""What the transports of all clients share: the crossing, and the shells around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing
from threading import Lock
from typing import Any, Self

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


class _Taping:
    """A transport around another one, sync or async.

    Args:
        client: The client's own classes.
        inner: The transport that really sends, if the user gives one.
        make_inner: Makes one otherwise, when it is first needed.
        headers: Names of headers that take part in what is asked.
    """

    def __init__(self, client: Client, inner: Any, make_inner: Callable[[], Any], headers: Collection[str]) -> None:
        self._client = client
        self._inner = inner
        self._make_inner = make_inner
        self._names = header_names(headers)
        self._lock = Lock()

    def _real(self) -> Any:
        """Return the transport that really sends; making one takes long, and a replay needs none."""
        with self._lock:
            if self._inner is None:
                self._inner = self._make_inner()
            return self._inner

    def _cross(self, session: Session, request: Any, content: bytes) -> Crossing:
        headers = request.headers
        if "upgrade" in headers:
            with session.latching():
                raise ConfigurationError(
                    f"{request.url.host}: a connection that becomes a WebSocket cannot be recorded\n"
                    "  give the client another transport for it: mounts={'all://HOST': ...}"
                )
        plain = self._client.decompressed(headers.get("content-encoding", ""), content)
        return session.cross(HTTP, request.url.host, question_of(request, self._names, plain))

    def _recorder(self, request: Any, response: Any) -> tuple[Head, BodyWriter]:
        """Return the head of a real response, and what makes chunks of its body.

        The body is recorded as the client decompresses it, so that the redactor can read it.
        """
        encoding = response.headers.get("content-encoding", "")
        has_body = request.method != "HEAD"  # else the headers tell of the body that GET would have
        head = Head.of(response, decompressed=has_body and self._client.decompresses(encoding))
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
        return self._client.response(
            head.status,
            headers=head.headers,
            stream=self._client.body(chunks, BodyReader(head.content_type)),
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
        """End the recording; what was not read before is not part of it."""
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
        """End the recording; what was not read before is not part of it."""
        if self._reader.is_over:
            await anext(self._chunks, None)  # so it is recorded as read to its end
        await self._chunks.aclose()


class Taping(_Taping):
    """The sync transports: what `TapeTransport` of each client is made of."""

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


class AsyncTaping(_Taping):
    """The async transports: what `AsyncTapeTransport` of each client is made of."""

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
