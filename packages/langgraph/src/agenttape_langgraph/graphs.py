"""Taped graphs: graphs whose runs take part in the session in force.

A taped graph executes on every replay. Calls that reach outside from within it are taped, whether or not the session is
automatic: models, tools and retrievers inside its nodes, and inside the nodes of its subgraphs.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from agenttape_core.integration import current_session, taking_part
from agenttape_core.integration.alias import alias_class, is_alias
from agenttape_langgraph._compat import twin_of
from agenttape_langgraph.node_boundary import ReplayNodes
from agenttape_langgraph.replayed_nodes import with_replayed_nodes

GraphT = TypeVar("GraphT", bound=Pregel[Any, Any, Any, Any])
BuilderT = TypeVar("BuilderT", bound=StateGraph[Any, Any, Any, Any])

_REPLAY_NODES = "agenttape_replay_nodes"
_END: Any = object()


def tape_graph(graph: GraphT, replay_nodes: ReplayNodes = ()) -> GraphT:
    """Return a taped graph like this one, which doesn't change.

    A recorded graph is returned unchanged, unless nodes are to be replayed as a whole. Raises `ConfigurationError` if
    the graph has no such node.
    """
    if is_alias(graph) and not replay_nodes:
        return graph
    nodes = {"nodes": with_replayed_nodes(graph, replay_nodes)} if replay_nodes else {}
    kind: Any = type(graph)
    taped: GraphT = twin_of(graph, kind if is_alias(graph) else _graph_alias(kind), **nodes)
    return taped


def tape_builder(builder: BuilderT, replay_nodes: ReplayNodes = ()) -> BuilderT:
    """Return a builder like this one that compiles to taped graphs. Later additions to one are not made to the other.

    A recorded builder is returned unchanged, unless nodes are to be replayed as a whole.
    """
    if is_alias(builder) and not replay_nodes:
        return builder
    own = {_REPLAY_NODES: replay_nodes} if replay_nodes else {}
    state = {key: _copied(value) for key, value in vars(builder).items()}
    kind: Any = type(builder)
    taped: BuilderT = twin_of(builder, kind if is_alias(builder) else _builder_alias(kind), **state, **own)
    return taped


def _copied(value: Any) -> Any:
    """Return a copy of a builder's container of nodes, edges or branches, two levels deep; deeper values are shared."""
    if type(value).__name__ == "defaultdict" or type(value) is dict:
        copied = value.copy()
        for key, item in value.items():
            copied[key] = item.copy() if isinstance(item, dict | set | list) else item
        return copied
    return value.copy() if type(value) in (set, list) else value


@functools.cache
def _graph_alias(cls: type[Pregel[Any, Any, Any, Any]]) -> type:
    methods = {
        "stream": _stream(cls.stream),
        "astream": _astream(cls.astream),
        "bulk_update_state": _plain(cls.bulk_update_state),
        "abulk_update_state": _coroutine(cls.abulk_update_state),
    }
    return alias_class(cls, methods, _graph_alias)


@functools.cache
def _builder_alias(cls: type[StateGraph[Any, Any, Any, Any]]) -> type:
    real = cls.compile

    @functools.wraps(real)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 - it becomes the method of that name
        return tape_graph(real(self, *args, **kwargs), vars(self).get(_REPLAY_NODES, ()))

    return alias_class(cls, {"compile": compile}, _builder_alias)


# -- the shapes of a graph's methods -----------------------------------------------------------------------------------


def _inside() -> AbstractContextManager[None]:
    session = current_session()
    return taking_part(session) if session is not None else nullcontext()


def _plain(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _inside():
            return real(self, *args, **kwargs)

    return method


def _coroutine(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _inside():
            return await real(self, *args, **kwargs)

    return method


def _stream(real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(real)
    def stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        parts = real(self, *args, **kwargs)
        try:
            while True:
                with _inside():
                    part = next(parts, _END)
                if part is _END:
                    return
                yield part
        finally:
            with _inside():
                parts.close()  # type: ignore[attr-defined]  # it is a generator

    return stream


def _astream(real: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(real)
    async def astream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        parts = real(self, *args, **kwargs)
        try:
            while True:
                with _inside():
                    part = await anext(parts, _END)
                if part is _END:
                    return
                yield part
        finally:
            with _inside():
                await parts.aclose()  # type: ignore[attr-defined]  # it is a generator

    return astream
