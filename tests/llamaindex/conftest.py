"""What holds for every test of the LlamaIndex package: the databases that the framework leaves open are closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close what memories connected to: chat engines make them, and nobody closes them.

    Left to the garbage collector, a connection tells its end to the event loop that happens to run, of any later test.
    """
    opened: list[Any] = []  # held until then, so that none is collected before

    def note(connection: Any, _: object) -> None:
        opened.append(connection.driver_connection)

    event.listen(Pool, "connect", note)
    yield
    event.remove(Pool, "connect", note)
    if opened:
        loop = asyncio.new_event_loop()  # the one of `asyncio.run` would take the place of pytest-asyncio's
        for connection in opened:
            loop.run_until_complete(connection.close())
        loop.close()
