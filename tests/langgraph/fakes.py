"""The scripted world of LangGraph's tests: that of LangChain's, and ways to run graphs and to compare their runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agenttape_core import use_cassette
from agenttape_core.integration import Session

from ..langchain.fakes import (
    AsyncChat,
    FakeChat,
    NativeChat,
    PlainChat,
    StreamingChat,
    World,
    calling,
    numbered,
)

__all__ = ["AsyncChat", "FakeChat", "NativeChat", "PlainChat", "StreamingChat", "World", "calling", "numbered"]

MODES = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"]
"""Every mode of streaming."""

CONFIG: Any = {"configurable": {"thread_id": "1"}, "max_concurrency": 40}
"""The config of a thread whose nodes may all run at once."""


class Run(NamedTuple):
    """A run to compare: all its output, and its session."""

    facts: Any
    session: Session


class Call(NamedTuple):
    """A call of a graph, by the name of its synchronous method."""

    graph: Any
    method: str
    args: tuple[Any, ...]
    options: dict[str, Any]


def call(graph: Any, method: str, *args: Any, **options: Any) -> Call:
    """Return a call, for a drive to yield: it is sent the result, and all parts of a stream."""
    return Call(graph, method, args, options)


Drive: TypeAlias = Callable[[str], Any]
"""Makes a graph in a session of the given mode, runs it, and returns all that is to be equal.

A generator of calls is run by the synchronous or by the asynchronous methods of the graphs.
"""


def run(calls: Generator[Call, Any, Any]) -> Any:
    """Make the calls of a drive, and return what it returns."""
    result = None
    try:
        while True:
            graph, method, args, options = calls.send(result)
            result = getattr(graph, method)(*args, **options)
            result = list(result) if isinstance(result, Iterator) else result
    except StopIteration as end:
        return end.value


async def arun(calls: Generator[Call, Any, Any]) -> Any:
    """Do the same by the asynchronous methods."""
    result = None
    try:
        while True:
            graph, method, args, options = calls.send(result)
            result = getattr(graph, f"a{method}")(*args, **options)
            is_stream = isinstance(result, AsyncIterator)
            result = [part async for part in result] if is_stream else await result
    except StopIteration as end:
        return end.value


def recorded_and_replayed(world: World, path: Path, drive: Drive, **options: Any) -> tuple[Run, Run]:
    """Record a run, take the world away, and replay it."""
    runs = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        with use_cassette(path, mode=mode, **options) as session:
            facts = drive(mode)
            facts = run(facts) if isinstance(facts, Generator) else facts
        runs.append(Run(facts, session))
    return runs[0], runs[1]


async def arecorded_and_replayed(world: World, path: Path, drive: Drive, **options: Any) -> tuple[Run, Run]:
    """Do the same for an asynchronous run."""
    runs = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        async with use_cassette(path, mode=mode, **options) as session:
            facts = drive(mode)
            facts = await (arun(facts) if isinstance(facts, Generator) else facts)
        runs.append(Run(facts, session))
    return runs[0], runs[1]


class Twice:
    """Records a drive and replays it, in threads or in tasks of an event loop."""

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async

    def __call__(self, world: World, path: Path, drive: Drive, **options: Any) -> tuple[Run, Run]:
        """Return the recorded run and the replayed one."""
        if self.is_async:
            return asyncio.run(arecorded_and_replayed(world, path, drive, **options))
        return recorded_and_replayed(world, path, drive, **options)


def streamed(graph: Any, given: Any, config: Any = CONFIG, *, is_async: bool, **options: Any) -> list[Any]:
    """Return all parts of a stream of a graph."""

    async def astreamed() -> list[Any]:
        return [part async for part in graph.astream(given, config, **options)]

    return asyncio.run(astreamed()) if is_async else list(graph.stream(given, config, **options))


def by_task(parts: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the parts that a graph streamed, by the branch that each came from.

    How the parts of parallel branches mix is up to their schedule; the sequence of each branch is not. Updates and
    custom parts name no branch, so they are sorted.

    Args:
        parts: Of a stream with `subgraphs=True` and a list of modes: namespace, mode, data.
    """
    branches: dict[str, list[Any]] = {}
    for namespace, mode, data in parts:
        branches.setdefault(f"{namespace} {mode} {_branch(mode, data)}", []).append(data)
    return {
        branch: sorted(found, key=repr) if " updates " in branch or " custom " in branch else found
        for branch, found in branches.items()
    }


def _branch(mode: str, data: Any) -> str:
    """Return the branch within a namespace that a part came from."""
    if mode == "messages":
        return str(data[1].get("langgraph_checkpoint_ns"))
    if mode == "tasks":
        return str(data["id"])
    if mode == "debug":
        return str(data["payload"].get("id"))
    if mode == "updates":
        return ",".join(data)
    if mode == "values" and isinstance(data, dict) and "__interrupt__" in data:
        return " ".join(each.id for each in data["__interrupt__"])
    return ""
