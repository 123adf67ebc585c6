"""Transports for the clients of `httpx2`."""

from __future__ import annotations

from collections.abc import Collection

from agenttape_core.transports.clients import Client, client_missing
from agenttape_core.transports.taping import AsyncBody, AsyncTaping, Body, Taping

try:
    import httpx2
except ImportError as error:
    raise client_missing("httpx2", error) from error

__all__ = ["AsyncTapeTransport", "TapeTransport"]


class _Body(Body, httpx2.SyncByteStream):
    """A body as a sync client accepts it."""


class _AsyncBody(AsyncBody, httpx2.AsyncByteStream):
    """A body as an async client accepts it."""


class TapeTransport(Taping, httpx2.BaseTransport):
    """An HTTP transport that records and replays: `httpx2.Client(transport=TapeTransport())`.

    In a session each request is a crossing of kind `http`, named after its host. Outside any session it is exactly
    the inner transport.

    Args:
        inner: The transport that really sends; by default an `httpx2.HTTPTransport()`, made when it is first needed.
            What `httpx2.Client` would pass on to its own transport (`verify`, `proxy`, `http2`, ...) belongs there.
        headers: Names of headers that take part in what is asked, besides `accept` and `content-type`.

    Raises:
        ConfigurationError: `headers` is no collection of header names.
    """

    def __init__(self, inner: httpx2.BaseTransport | None = None, *, headers: Collection[str] = ()) -> None:
        super().__init__(Client(httpx2.Response, _Body, httpx2.DecodingError), inner, httpx2.HTTPTransport, headers)


class AsyncTapeTransport(AsyncTaping, httpx2.AsyncBaseTransport):
    """Like `TapeTransport`, for `httpx2.AsyncClient`; by default around an `httpx2.AsyncHTTPTransport()`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport | None = None, *, headers: Collection[str] = ()) -> None:
        client = Client(httpx2.Response, _AsyncBody, httpx2.DecodingError)
        super().__init__(client, inner, httpx2.AsyncHTTPTransport, headers)
