"""Fixtures of all tests of LlamaIndex's package: a world, and the end of databases that the framework leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttape_llamaindex import TapeEventHandler

from ..kit.databases import closed_databases
from .scripted import World


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
    """Close the connections of memories."""
    with closed_databases():
        yield
