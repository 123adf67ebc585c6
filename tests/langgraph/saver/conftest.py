"""Fixtures of the saver's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttape_langgraph import TapeSaver

from .postgres import NoPostgresError, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a real Postgres server; the test is skipped if none can be started."""
    server = postgres_server()
    try:
        address = server.__enter__()
    except NoPostgresError as error:
        pytest.skip(str(error))
    yield address
    server.__exit__(None, None, None)


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """How to connect to Postgres, in the cells of a table that need it."""
    needed = "postgres" in request.node.callspec.params.values()
    return str(request.getfixturevalue("postgres")) if needed else ""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path without a file."""
    return tmp_path / "runs" / "saver.sqlite"


@pytest.fixture
def saver(path: Path) -> Iterator[TapeSaver]:
    """A saver on that file."""
    with TapeSaver(path) as saver:
        yield saver
