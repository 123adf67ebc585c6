"""Transports for the clients of `httpx`, and what tapes those without one."""

from __future__ import annotations

from contextlib import AbstractContextManager

from agenttape_core.transports.httpx_family import AsyncTaping, Taping, async_client, sync_client, taping_clients
from agenttape_core.transports.patching import client_missing

try:
    import httpx
except ImportError as error:
    raise client_missing("httpx", error) from error

__all__ = ["AsyncTapeTransport", "TapeTransport", "automatic"]


class TapeTransport(Taping[httpx.BaseTransport], httpx.BaseTransport):
    """An HTTP transport that records and replays: `httpx.Client(transport=TapeTransport())`.

    In a session each request is a call of kind `http`, named after its host. Outside any session it is exactly
    the inner transport.

    Args:
        inner: The transport that really sends; by default an `httpx.HTTPTransport()`, made when it is first needed.
            Options that `httpx.Client` passes on to its own transport (`verify`, `proxy`, `http2`, ...) belong there.
        headers: Names of headers that are part of the request, in addition to `accept` and `content-type`.

    Raises:
        ConfigurationError: `headers` isn't a collection of header names.
    """

    client = sync_client(httpx)


class AsyncTapeTransport(AsyncTaping[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport):
    """Like `TapeTransport`, for `httpx.AsyncClient`; by default around an `httpx.AsyncHTTPTransport()`."""

    client = async_client(httpx)


def automatic() -> AbstractContextManager[None]:
    """Tape all clients of `httpx` while inside; core enters it with the first session that records HTTP."""
    return taping_clients(httpx)
