"""Events on a NATS server, each a message whose subject shows whether it was a replay. Needs the extra `nats`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.sinks import Queued, line_of
from agenttape_core.session import Event

EXTRA = "events on nats:// need its client\n  pip install 'agenttape-core[nats]'"
_PORT = 4222
_SECONDS = 1  # seconds to wait for the server, at the beginning and for each message


def sink(url: str) -> Queued:
    """Return the sink for a server.

    `url` is such as `nats://127.0.0.1:4222`, or with a separate subject as path: `nats://127.0.0.1:4222/agents`. Raises
    `ConfigurationError` if the client is not installed, or the server does not answer.
    """
    parts = urlsplit(url)
    subject = parts.path.strip("/")
    if parts.hostname is None:
        raise ConfigurationError(f"events={url!r}: expected a host, such as nats://127.0.0.1:4222")
    try:
        import nats  # noqa: F401 - here, and not in the thread: it could wait for an import that this is in the midst of
    except ModuleNotFoundError:
        raise ConfigurationError(EXTRA) from None
    server = f"nats://{parts.netloc}"
    shown = f"nats://{parts.hostname}:{parts.port or _PORT}"  # without a password
    return Queued(lambda: _connected(server, subject, shown), shown)


def _connected(server: str, subject: str, shown: str) -> tuple[Callable[[Event], object], Callable[[], object]]:
    import nats
    from nats.errors import Error

    async def quiet(_: Exception) -> None:
        """Ignore it: lost events are counted."""

    async def connect() -> Any:
        # In a time limit of ours: the client tries a server that is not there sixty times.
        return await asyncio.wait_for(nats.connect(server, allow_reconnect=False, error_cb=quiet), _SECONDS)

    loop = asyncio.new_event_loop()
    try:
        client = loop.run_until_complete(connect())
    except (Error, OSError, TimeoutError) as error:
        loop.close()
        problem = f"{shown} does not answer: {error or type(error).__name__}"
        raise ConfigurationError(f"{problem}\n  start it, or leave events out") from None

    def pass_on(event: Event) -> None:
        loop.run_until_complete(publish(subject or str(event["subject"]), line_of(event).encode()))

    async def publish(to: str, line: bytes) -> None:
        await client.publish(to, line)
        await client.flush(_SECONDS)

    def end() -> None:
        loop.run_until_complete(client.close())
        loop.close()

    return pass_on, end
