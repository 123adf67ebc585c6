from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agenttape_core import use_cassette

from .world import OlderThread, World, look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def world() -> World:
    """What lies outside."""
    return World()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def recorded() -> None:
    """A cassette `c` with one call."""
    with use_cassette("c", mode="all"):
        look("Paris")


@pytest.fixture
def older_thread() -> Iterator[OlderThread]:
    """A thread that is older than the sessions of the test."""
    thread = OlderThread()
    yield thread
    thread.end()
