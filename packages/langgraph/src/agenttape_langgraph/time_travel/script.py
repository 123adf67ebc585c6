"""Scripts: generators of actions on graphs, savers and sessions.

A script yields actions and is sent their results, or their errors. One driver carries them out synchronously, another
asynchronously, so each procedure is written once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel

from agenttape_core import use_cassette
from agenttape_core.integration.cassettes import deriving
from agenttape_core.integration.patching import Wrappers
from agenttape_langgraph._compat import BEGINNING

T = TypeVar("T")
Graph = Pregel[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Enter:
    """Open a session. It is closed with the error if the script is left by one."""

    block: use_cassette | deriving


@dataclass(frozen=True, slots=True)
class Leave:
    """Close the sessions that were opened."""


@dataclass(frozen=True, slots=True)
class ListCheckpoints:
    """List the checkpoints of a thread."""

    saver: BaseCheckpointSaver[Any]
    config: RunnableConfig


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run a graph until it ends, stops to ask, or is stopped."""

    graph: Graph
    input: Any
    config: RunnableConfig
    context: Any


@dataclass(frozen=True, slots=True)
class Update:
    """Change the state of a graph, or of a subgraph whose namespace is in the config."""

    graph: Graph
    config: RunnableConfig
    values: Any
    as_node: str | None


@dataclass(frozen=True, slots=True)
class GetState:
    """Get the state of a graph."""

    graph: Graph
    config: RunnableConfig


Action = Enter | Leave | ListCheckpoints | Invoke | Update | GetState
Script: TypeAlias = Generator[Action, Any, T]
"""A procedure that returns a `T`."""


# -- Carry out scripts, synchronously and asynchronously.

# -- The graph that runs: LangGraph finds a subgraph to edit by its node, and one that a tool runs belongs to none.

_running: ContextVar[Graph | None] = ContextVar("agenttape_running_graph", default=None)
_wrappers = Wrappers(lambda wrappers: wrappers.patch(*BEGINNING, _noting))


def running_graph() -> Graph | None:
    """Return the graph that began last in this context, while graphs are noted."""
    return _running.get()


@contextmanager
def noting_graphs() -> Iterator[None]:
    """Note each graph that begins, while inside; even in several threads in parallel."""
    with _wrappers:
        before = _running.set(None)
        try:
            yield
        finally:
            _running.reset(before)


def _noting(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def begin(self: Graph, *args: Any, **kwargs: Any) -> Any:
        _running.set(self)
        return real(self, *args, **kwargs)

    return begin


Sessions: TypeAlias = "ExitStack[Literal[False]]"
AsyncSessions: TypeAlias = "AsyncExitStack[Literal[False]]"

_DURABILITY: Literal["sync"] = "sync"
"""A checkpoint is kept before the next step begins, so that the graph can be stopped between them."""


def drive(script: Script[T]) -> T:
    """Carry out a script with the synchronous methods of graphs and savers; return its result."""
    sessions: Sessions = ExitStack()
    with sessions:
        try:
            action = next(script)
            while True:
                try:
                    result = _do(action, sessions)
                except Exception as error:  # noqa: BLE001 - the script decides what an error means
                    action = script.throw(error)
                else:
                    action = script.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def _do(action: Action, sessions: Sessions) -> Any:
    match action:
        case Invoke(graph, given, config, context):
            with noting_graphs():
                return graph.invoke(given, config, context=context, durability=_DURABILITY)
        case Update(graph, config, values, as_node):
            return graph.update_state(config, values, as_node)
        case GetState(graph, config):
            return graph.get_state(config)
        case ListCheckpoints(saver, config):
            return list(saver.list(config))
        case Enter(block):
            return sessions.enter_context(block)
        case Leave():
            return sessions.close()


async def adrive(script: Script[T]) -> T:
    """Carry out a script with the asynchronous methods of graphs and savers; return its result."""
    sessions: AsyncSessions = AsyncExitStack()
    async with sessions:
        try:
            action = next(script)
            while True:
                try:
                    result = await _ado(action, sessions)
                except Exception as error:  # noqa: BLE001 - the script decides what an error means
                    action = script.throw(error)
                else:
                    action = script.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def _ado(action: Action, sessions: AsyncSessions) -> Any:
    match action:
        case Invoke(graph, given, config, context):
            with noting_graphs():
                return await graph.ainvoke(given, config, context=context, durability=_DURABILITY)
        case Update(graph, config, values, as_node):
            return await graph.aupdate_state(config, values, as_node)
        case GetState(graph, config):
            return await graph.aget_state(config)
        case ListCheckpoints(saver, config):
            return [found async for found in saver.alist(config)]
        case Enter(block):
            return await sessions.enter_async_context(block)
        case Leave():
            return await sessions.aclose()
