"""Fixtures of all tests of LlamaIndex's package: a world, and the end of databases that the framework leaves open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from agenttape_llamaindex import TapeEventHandler

from .scripted import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def world() -> World:
    """Return a world that nothing has reached yet."""
    return World()


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[TapeEventHandler]:
    """Yield a handler with a cassette to write; at the end it must have recorded everything."""
    handler = TapeEventHandler(tmp_path / "seen.yaml")
    yield handler
    handler.close()
    assert handler.errors == []


@pytest.fixture(autouse=True)
def _closed_databases() -> Iterator[None]:
    """Close the connections of memories: chat engines open them, and nothing closes them.

    Left to the garbage collector, a connection reports its end to the event loop of any later test.
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
