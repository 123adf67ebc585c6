"""Fixtures of the LangGraph package's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .fakes import Twice, World


@pytest.fixture
def world() -> Iterator[World]:
    """The world behind scripted models and tools. A test that makes it `gone` fails if anything still reaches it."""
    world = World()
    yield world
    assert world.trespasses == []


@pytest.fixture(params=["threads", "tasks"])
def twice(request: pytest.FixtureRequest) -> Twice:
    """Record a drive and replay it, by the synchronous methods of its graphs, and by the asynchronous ones."""
    return Twice(is_async=request.param == "tasks")
