"""Fixtures of time travel's tests: threads are recorded in a session, or by a handler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..fakes import World
from .threads import loop, observed, taped

Record = Callable[..., Any]


@pytest.fixture(params=[taped, pytest.param(observed, marks=pytest.mark.night)])
def record(request: pytest.FixtureRequest) -> Record:
    """Record a thread in a session, and at night by a handler too: path, builder, inputs."""
    recorder: Record = request.param
    return recorder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The cassette of the recorded thread."""
    return tmp_path / "thread.yaml"


@pytest.fixture(scope="module")
def recorded_loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of 20 steps, for tests that only read it."""
    path = tmp_path_factory.mktemp("loop") / "loop.yaml"
    observed(path, loop(World()), [{"log": ["hello"]}])
    return path
