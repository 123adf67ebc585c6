"""Replace each transport of `mcp` by a recorded one, while sessions are open."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from typing import Any

from agenttape_core.mcp._compat import replacing_transport
from agenttape_core.mcp.links import taped

_TRANSPORTS: dict[str, tuple[str, ...]] = {
    "mcp.client.stdio": ("stdio_client",),
    "mcp.client.sse": ("sse_client",),
    "mcp.client.streamable_http": ("streamable_http_client", "streamablehttp_client"),
}
_SESSION_ID = "GetSessionIdCallback"
"""The name in a module of version 1 whose transport also yields a function for the id of the session."""
_WEBSOCKET: dict[str, tuple[str, ...]] = {"mcp.client.websocket": ("websocket_client",)}


def automatic() -> AbstractContextManager[None]:
    """Tape what MCP clients ask while inside; core enters it with the first session."""
    return _taping(_TRANSPORTS)


def websocket() -> AbstractContextManager[None]:
    """Record the transport over WebSockets of version 1, which is a separate import."""
    return _taping(_WEBSOCKET)


@contextmanager
def _taping(transports: dict[str, tuple[str, ...]]) -> Iterator[None]:
    with ExitStack() as stack:
        for module, names in transports.items():
            loaded = sys.modules.get(module)
            found = [getattr(loaded, name) for name in names if hasattr(loaded, name)]
            if found:  # an older name leads to the newer one
                around = functools.partial(_around, has_session_id=hasattr(loaded, _SESSION_ID))
                stack.enter_context(replacing_transport(found[0], around))
        yield


def _around(real: Callable[..., Any], *, has_session_id: bool) -> Callable[..., AsyncGenerator[Any, None]]:
    kind = real.__module__.rpartition(".")[2]

    @functools.wraps(real)
    async def transport(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        given = args[0] if args else next(iter(kwargs.values()), None)
        connect = functools.partial(asynccontextmanager(real), *args, **kwargs)
        async with taped(connect, kind, given, has_session_id=has_session_id) as streams:
            yield streams

    return transport
