"""The end of databases that LlamaIndex leaves open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool


@contextmanager
def closed_databases() -> Iterator[None]:
    """Close the connections of memories at the end of the block: chat engines open them, and nothing closes them.

    Left to the garbage collector, a connection reports its end to the event loop of any later test.
    """
    opened: list[Any] = []  # held until then, so that none is collected before

    def note(connection: Any, _: object) -> None:
        if hasattr(connection, "driver_connection"):  # an asynchronous one; others are closed by their pools
            opened.append(connection.driver_connection)

    event.listen(Pool, "connect", note)
    yield
    event.remove(Pool, "connect", note)
    if opened:
        loop = asyncio.new_event_loop()  # the one of `asyncio.run` would take the place of pytest-asyncio's
        for connection in opened:
            loop.run_until_complete(connection.close())
        loop.close()
