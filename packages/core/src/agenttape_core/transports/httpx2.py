"""Transports for the clients of `httpx2`, and what tapes those without one."""

from __future__ import annotations

from contextlib import AbstractContextManager

from agenttape_core.transports.httpx_family import AsyncTaping, Taping, async_client, sync_client, taping_clients
from agenttape_core.transports.patching import client_missing

try:
    import httpx2
except ImportError as error:
    raise client_missing("httpx2", error) from error

__all__ = ["AsyncTapeTransport", "TapeTransport", "automatic"]


class TapeTransport(Taping[httpx2.BaseTransport], httpx2.BaseTransport):
    """An HTTP transport that records and replays: `httpx2.Client(transport=TapeTransport())`.

    In a session each request is a call of kind `http`, named after its host. Outside any session it is exactly
    the inner transport.

    Args:
        inner: The transport that really sends; by default an `httpx2.HTTPTransport()`, made when it is first needed.
            Options that `httpx2.Client` passes on to its own transport (`verify`, `proxy`, `http2`, ...) belong there.
        headers: Names of headers that are part of the request, in addition to `accept` and `content-type`.

    Raises:
        ConfigurationError: `headers` isn't a collection of header names.
    """

    client = sync_client(httpx2)


class AsyncTapeTransport(AsyncTaping[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport):
    """Like `TapeTransport`, for `httpx2.AsyncClient`; by default around an `httpx2.AsyncHTTPTransport()`."""

    client = async_client(httpx2)


def automatic() -> AbstractContextManager[None]:
    """Tape all clients of `httpx2` while inside; core enters it with the first session that records HTTP."""
    return taping_clients(httpx2)
