"""Record a program and replay it, with everything that an observer of LlamaIndex can see."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.testing import Capture, Facts
from agenttape_llamaindex.testing import capturing

from .scripted import World

FRAMEWORK_WARNINGS = [
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]
"""The warnings of the framework itself when an agent is made or a context is saved."""


@dataclass
class Run:
    """One run of a program: its value, all that LlamaIndex reported of it, and the state of the cassette."""

    value: Any
    cassette: Any
    log: Facts


def run(program: Callable[[World], Awaitable[Any] | Any], world: World, path: Path, mode: str, **options: Any) -> Run:
    """Run a program once in a session, with a time limit that only a hang meets."""
    capture = Capture()

    async def main() -> Any:
        with capturing(capture), use_cassette(path, mode=mode, **options) as cassette:
            value = program(world)
            return await asyncio.wait_for(value, 60) if inspect.isawaitable(value) else value, cassette

    value, cassette = asyncio.run(main())
    return Run(value, cassette, capture.facts())


def record_and_replay(program: Callable[[World], Any], path: Path, **options: Any) -> tuple[Run, Run]:
    """Record a program, take the world away, and replay it."""
    world = World()
    recorded = run(program, world, path, "once", **options)
    world.gone = True
    replayed = run(program, world, path, "none", **options)
    assert world.reached
    assert not world.trespasses
    assert not replayed.cassette.report.recorded
    assert not replayed.cassette.report.unused
    return recorded, replayed
