"""Record a program and replay it, with everything that an observer of LlamaIndex can see."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import PrivateAttr

from agenttape_core import use_cassette

from .scripted import World

FRAMEWORK_WARNINGS = [
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]
"""The warnings of the framework itself when an agent is made or a context is saved."""

_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Events(BaseEventHandler):
    """Writes events down as text, with their ids and their times."""

    _log: list[str] = PrivateAttr()

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        try:
            shown = repr(event.model_dump())
        except Exception as error:  # an event may hold what pydantic cannot dump
            shown = f"{event.id_} {event.span_id} {type(error).__name__}"
        self._log.append(_ADDRESS.sub("0x", f"{type(event).__name__} {shown}"))


class Spans(BaseSpanHandler[Any]):
    """Writes the beginning and the end of spans down."""

    _log: list[str] = PrivateAttr()

    @classmethod
    def class_name(cls) -> str:
        return "Spans"

    def new_span(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: Any = None,
        **_: Any,
    ) -> None:
        self._log.append(f"begin {id_} of {type(instance).__name__} in {parent_span_id}")

    def prepare_to_exit_span(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **_: Any
    ) -> None:
        self._log.append(f"end {id_} with {type(result).__name__}")

    def prepare_to_drop_span(self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **_: Any) -> None:
        self._log.append(f"drop {id_} by {type(err).__name__}")


@contextmanager
def observed(log: list[str]) -> Iterator[None]:
    """Write down everything that LlamaIndex reports to observers while inside."""
    dispatcher, events, spans = get_dispatcher(), Events(), Spans()
    events._log = spans._log = log
    dispatcher.event_handlers.append(events)
    dispatcher.span_handlers.append(spans)
    try:
        yield
    finally:
        dispatcher.event_handlers.remove(events)
        dispatcher.span_handlers.remove(spans)


@dataclass
class Run:
    """One run of a program: its value, the observed log, and the state of the cassette."""

    value: Any
    cassette: Any
    log: list[str] = field(default_factory=list)

    @property
    def multiset(self) -> Counter[str]:
        """The observed log without its order: concurrent branches interleave freely."""
        return Counter(self.log)


def run(program: Callable[[World], Awaitable[Any] | Any], world: World, path: Path, mode: str, **options: Any) -> Run:
    """Run a program once in a session, with a time limit that only a hang meets."""
    log: list[str] = []

    async def main() -> Any:
        with observed(log), use_cassette(path, mode=mode, **options) as cassette:
            value = program(world)
            return await asyncio.wait_for(value, 60) if inspect.isawaitable(value) else value, cassette

    value, cassette = asyncio.run(main())
    return Run(value, cassette, log)


def record_and_replay(program: Callable[[World], Any], path: Path, **options: Any) -> tuple[Run, Run]:
    """Record a program, take the world away, and replay it."""
    world = World()
    recorded = run(program, world, path, "once", **options)
    world.gone = True
    replayed = run(program, world, path, "none", **options)
    assert world.reached
    assert not world.trespasses
    assert not replayed.cassette.report.executed
    assert not replayed.cassette.report.unused
    return recorded, replayed
