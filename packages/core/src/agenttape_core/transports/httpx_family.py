"""Requests of `httpx` and `httpx2`, which have the same names: transports that tape, and clients that are not taped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing, contextmanager
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Session, current_session
from agenttape_core.integration.patching import register_backoff
from agenttape_core.locks import Lock
from agenttape_core.schema import Plain
from agenttape_core.transports.exchanges import (
    AsyncBody,
    Body,
    Exchange,
    achunks_of,
    aexchange,
    automatic_session,
    chunks_of,
    exchange,
    resized,
    session_call_of,
)
from agenttape_core.transports.patching import Client, is_genuine, replacing
from agenttape_core.transports.requests import ASKED_HEADERS, Destination, Request, header_names
from agenttape_core.transports.responses import Head

# Waits of SDKs between two attempts, which a replay skips: where HTTP is replayed, the SDK tries again as it did.

_SDKS = ("anthropic", "cerebras.cloud.sdk", "groq", "openai", "together")
"""The packages whose clients Stainless generates."""


def _register_backoffs() -> None:
    """Name the functions of SDKs that wait between two attempts."""
    for package in _SDKS:
        register_backoff(f"{package}._base_client", ("_sleep_for_retry",))


TransportT = TypeVar("TransportT")

_register_backoffs()


class _Sending:
    """One request of a client, sync or async, in a session. `client` has its classes; the headers `names` take part."""

    def __init__(self, client: Client, session: Session, request: Any, names: tuple[str, ...] = ASKED_HEADERS) -> None:
        self._client = client
        self._session = session
        self._request = request
        self._names = names
        self._live: dict[str, Any] = {}
        """The extensions of the real response, if there is one; they hold its connection."""

    def send(self, real: Callable[[Any], Any]) -> Any:
        """Replay the request, or send and record it."""
        asked = self._asked(self._request.read())
        session_call = session_call_of(self._session, asked, self._names)
        return self._response(exchange(self._session, asked, session_call, lambda body: self._chunks(real, body)))

    async def asend(self, real: Callable[[Any], Any]) -> Any:
        """Like `send`, for an async client."""
        asked = self._asked(await self._request.aread())
        session_call = session_call_of(self._session, asked, self._names)
        return self._response(
            await aexchange(self._session, asked, session_call, lambda body: self._achunks(real, body))
        )

    def _asked(self, content: bytes) -> Request:
        request, url = self._request, self._request.url
        destination = _destination_of(url)
        plain = self._client.decompressed(request.headers.get("content-encoding", ""), content)
        return Request(request.method, destination, dict(request.headers.items()), plain)

    def _sent(self, body: bytes | None) -> Any:
        """Return the request to send, with another body if there is one."""
        own = self._request
        if body is None:
            return own
        headers = resized(own.headers.raw)
        return type(own)(own.method, own.url, headers=headers, content=body, extensions=own.extensions)

    def _chunks(self, real: Callable[[Any], Any], body: bytes | None) -> Iterator[Plain]:
        response = real(self._sent(body))
        try:
            self._live.update(response.extensions)
            yield from chunks_of(self._head(response), response.iter_bytes())
        finally:
            response.close()

    async def _achunks(self, real: Callable[[Any], Any], body: bytes | None) -> AsyncIterator[Plain]:
        response = await real(self._sent(body))
        try:
            self._live.update(response.extensions)
            async with aclosing(response.aiter_bytes()) as pieces:
                async for chunk in achunks_of(self._head(response), pieces):
                    yield chunk
        finally:
            await response.aclose()

    def _head(self, response: Any) -> Head:
        """Return the head of a real response. Its body is recorded decompressed, for the redactor."""
        head = Head(response.status_code, list(response.headers.raw), response.extensions)
        # The headers of an answer to HEAD describe the body that GET would have.
        has_body = self._request.method != "HEAD"
        encoding = response.headers.get("content-encoding", "")
        return head.without_encoding() if has_body and self._client.decompresses(encoding) else head

    def _response(self, got: Exchange) -> Any:
        """Return a response; a client gets the same whether it is replayed or recorded."""
        return self._client.response(
            got.head.status,
            headers=got.head.headers,
            stream=self._client.stream(got.body),
            extensions={**got.head.extensions, **self._live},
        )


class _Taping(Generic[TransportT]):
    """A transport around another one, sync or async; a subclass has the `client`.

    Args:
        inner: The transport that really sends; by default the client's own, made when it is first needed.
        headers: Names of headers that are part of the request, in addition to `accept` and `content-type`.

    Raises:
        ConfigurationError: `headers` isn't a collection of header names.
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

    def _sending(self, session: Session, request: Any) -> _Sending:
        if "upgrade" in request.headers:
            with session.latch:
                raise ConfigurationError(
                    f"{request.url.host}: a connection that becomes a WebSocket cannot be recorded\n"
                    "  give the client another transport for it: mounts={'all://HOST': ...}"
                )
        return _Sending(self.client, session, request, self._names)


class Taping(_Taping[TransportT]):
    """The sync transports: the base of `TapeTransport` for each client."""

    def handle_request(self, request: Any) -> Any:
        """Replay a request, or send and record it; outside any session only send it.

        Raises `CassetteMissError` if it was not recorded, and may not be sent.
        """
        session = current_session()
        if session is None:
            return self._real().handle_request(request)
        return self._sending(session, request).send(lambda request: self._real().handle_request(request))

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
        """Replay a request, or send and record it; outside any session only send it.

        Raises `CassetteMissError` if it was not recorded, and may not be sent.
        """
        session = current_session()
        if session is None:
            return await self._real().handle_async_request(request)
        return await self._sending(session, request).asend(lambda request: self._real().handle_async_request(request))

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


class _Stream:
    """The body of a response, as the client wants it."""

    def __init__(self, body: Body) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return self._body

    def close(self) -> None:
        self._body.close()


class _AsyncStream:
    """The same, of an async client."""

    def __init__(self, body: AsyncBody) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body

    async def aclose(self) -> None:
        await self._body.aclose()


def sync_client(module: ModuleType) -> Client:
    """Return the classes of a client for sync transports, of `httpx` or a module with the same names."""
    stream = type("Stream", (_Stream, module.SyncByteStream), {})
    return Client(module.Response, stream, module.DecodingError, module.HTTPTransport)


def async_client(module: ModuleType) -> Client:
    """Like `sync_client`, for async transports."""
    stream = type("AsyncStream", (_AsyncStream, module.AsyncByteStream), {})
    return Client(module.Response, stream, module.DecodingError, module.AsyncHTTPTransport)


def _destination_of(url: Any) -> Destination:
    return Destination.of(url.scheme, url.host, url.port, url.raw_path.decode("ascii"))


@contextmanager
def taping_clients(module: ModuleType) -> Iterator[None]:
    """Tape what all clients of a module send over the network, while inside: the transports that they make.

    Authentication, redirects, cookies and transports in memory are above this, and run as without a session. `module`
    is `httpx`, or a module with the same names.
    """
    sync, asynchronous = sync_client(module), async_client(module)

    def sending(client: Client, request: Any, transport: Any, method: str) -> _Sending | None:
        session = automatic_session(_destination_of(request.url), request.headers)
        pool = getattr(transport, "_pool", None)
        is_mocked = pool is not None and not is_genuine(type(pool), method)
        return None if session is None or is_mocked else _Sending(client, session, request)

    def around(real: Any) -> Any:
        def handle_request(transport: Any, request: Any) -> Any:
            taped = sending(sync, request, transport, "handle_request")
            return real(transport, request) if taped is None else taped.send(lambda request: real(transport, request))

        return handle_request

    def async_around(real: Any) -> Any:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            taped = sending(asynchronous, request, transport, "handle_async_request")
            if taped is None:
                return await real(transport, request)
            return await taped.asend(lambda request: real(transport, request))

        return handle_async_request

    with (
        replacing(module.HTTPTransport, "handle_request", around),
        replacing(module.AsyncHTTPTransport, "handle_async_request", async_around),
    ):
        yield
