"""Transports for the clients of `httpx`."""

from __future__ import annotations

from collections.abc import Collection

from agenttape_core.transports.clients import Client, client_missing
from agenttape_core.transports.taping import AsyncBody, AsyncTaping, Body, Taping

try:
    import httpx
except ImportError as error:
    raise client_missing("httpx", error) from error

__all__ = ["AsyncTapeTransport", "TapeTransport"]


class _Body(Body, httpx.SyncByteStream):
    """A body as a sync client accepts it."""


class _AsyncBody(AsyncBody, httpx.AsyncByteStream):
    """A body as an async client accepts it."""


class TapeTransport(Taping, httpx.BaseTransport):
    """An HTTP transport that records and replays: `httpx.Client(transport=TapeTransport())`.

    In a session each request is a crossing of kind `http`, named after its host. Outside any session it is exactly
    the inner transport.

    Args:
        inner: The transport that really sends; by default an `httpx.HTTPTransport()`, made when it is first needed.
            What `httpx.Client` would pass on to its own transport (`verify`, `proxy`, `http2`, ...) belongs there.
        headers: Names of headers that take part in what is asked, besides `accept` and `content-type`.

    Raises:
        ConfigurationError: `headers` is no collection of header names.
    """

    def __init__(self, inner: httpx.BaseTransport | None = None, *, headers: Collection[str] = ()) -> None:
        super().__init__(Client(httpx.Response, _Body, httpx.DecodingError), inner, httpx.HTTPTransport, headers)


class AsyncTapeTransport(AsyncTaping, httpx.AsyncBaseTransport):
    """Like `TapeTransport`, for `httpx.AsyncClient`; by default around an `httpx.AsyncHTTPTransport()`."""

    def __init__(self, inner: httpx.AsyncBaseTransport | None = None, *, headers: Collection[str] = ()) -> None:
        client = Client(httpx.Response, _AsyncBody, httpx.DecodingError)
        super().__init__(client, inner, httpx.AsyncHTTPTransport, headers)
