"""Taped graphs: graphs whose runs take part in the session in force.

A taped graph executes on every replay. Calls that reach outside from within it are taped, whether or not the session is
automatic: models, tools and retrievers inside its nodes, and inside the nodes of its subgraphs.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import (
    Call,
    Cross,
    Family,
    Leaf,
    SessionCall,
    async_generator,
    coroutine,
    current_session,
    generator,
    original_of,
    plain,
)
from agenttape_core.integration.alias import alias_class, is_alias
from agenttape_core.integration.leaves import async_stream_taking_part, stream_taking_part, taking_part_here
from agenttape_langchain.integration import aapply, apply, noting_effects
from agenttape_langgraph._compat import RunnableCallable, is_function_node, is_sequence, twin_of
from agenttape_langgraph.node_boundary import ReplayNodes, cross_node, is_replayed, with_config
from agenttape_langgraph.tasks import with_replayed_tasks

GraphT = TypeVar("GraphT", bound=Pregel[Any, Any, Any, Any])
BuilderT = TypeVar("BuilderT", bound=StateGraph[Any, Any, Any, Any])

_REPLAY_NODES = "agenttape_replay_nodes"


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


def _plain(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with taking_part_here():
            return real(self, *args, **kwargs)

    return method


def _coroutine(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with taking_part_here():
            return await real(self, *args, **kwargs)

    return method


def _stream(real: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(real)
    def stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from stream_taking_part(real(self, *args, **kwargs))

    return stream


def _astream(real: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(real)
    async def astream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with aclosing(async_stream_taking_part(real(self, *args, **kwargs))) as parts:
            async for part in parts:
                yield part

    return astream


# -- Nodes that are replayed as a whole: they do not run on replay, and their effects are applied again.
#
# A replayed node is an alias of the runnable that the node is bound to, so an inspection of the graph finds the
# original properties: its class, its function, whether it is a coroutine, the graphs inside it. Only its calls are
# intercepted.


def with_replayed_nodes(graph: Any, replay_nodes: ReplayNodes) -> dict[str, Any]:
    """Return the nodes of a graph, with replayed ones for those that are named; the graph doesn't change.

    Raises `ConfigurationError` if no node of the graph, or of a graph that is a node of it, has one of the names.
    """
    _check_names(graph, replay_nodes)
    return _replayed_nodes(graph, replay_nodes)


def _replayed_nodes(graph: Any, replay_nodes: ReplayNodes) -> dict[str, Any]:
    return {name: _node(graph, name, node, replay_nodes) for name, node in graph.nodes.items()}


def _node(graph: Any, name: str, node: Any, replay_nodes: ReplayNodes) -> Any:
    bound = node.bound
    kind: Any = type(bound)
    by_name = not isinstance(replay_nodes, bool) and not callable(replay_nodes)
    is_whole = by_name or (isinstance(graph, CompiledStateGraph) and not isinstance(bound, Pregel))
    if name != START and is_whole and is_replayed(replay_nodes, name):
        whole = _sequence_class(kind)(bound=bound) if is_sequence(bound) else bound
        return node.copy({"bound": NODES.tape(whole, again=True), "subgraphs": node.subgraphs})
    if isinstance(bound, Pregel):
        nodes = _replayed_nodes(bound, replay_nodes)
        if all(nodes[name] is node for name, node in bound.nodes.items()):
            return node
        inner = twin_of(bound, nodes=nodes)
        subgraphs = [inner if graph is bound else graph for graph in node.subgraphs]
        return node.copy({"bound": inner, "subgraphs": subgraphs})
    if not isinstance(graph, CompiledStateGraph) and is_function_node(bound):  # the function of an entrypoint
        return node.copy({"bound": twin_of(bound, _entrypoint_alias(kind), **{_REPLAY_NODES: replay_nodes})})
    return node


@functools.cache
def _sequence_class(kind: type) -> Any:
    """Return a class of bindings that look like a class of sequences: LangGraph takes real sequences apart."""
    return type(kind.__name__, (RunnableBinding,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


def _check_names(graph: Any, replay_nodes: ReplayNodes) -> None:
    if isinstance(replay_nodes, bool) or callable(replay_nodes):
        return
    if not isinstance(graph, CompiledStateGraph):  # only a run shows which tasks an entrypoint calls
        return
    known = set(_names(graph))
    unknown = sorted(set(replay_nodes) - known)
    if unknown:
        raise ConfigurationError(
            f"replay_nodes: the graph has no node {', '.join(map(repr, unknown))}\n"
            f"  it has {', '.join(map(repr, sorted(known)))}; tape a graph that a function calls by itself"
        )


def _names(graph: Any) -> Iterator[str]:
    for name, node in graph.nodes.items():
        if name != START:
            yield name
        if isinstance(node.bound, Pregel):
            yield from _names(node.bound)


@functools.cache
def _entrypoint_alias(cls: type[RunnableCallable]) -> type:
    """Return a class for the function of an entrypoint, with its calls of tasks replayed."""

    @functools.wraps(cls.invoke)
    def invoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        config = with_replayed_tasks(config if config is not None else {}, vars(self)[_REPLAY_NODES])
        with with_config(config):
            return cls.invoke(self, input, config, **kwargs)

    @functools.wraps(cls.ainvoke)
    async def ainvoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        config = with_replayed_tasks(config if config is not None else {}, vars(self)[_REPLAY_NODES])
        with with_config(config):
            return await cls.ainvoke(self, input, config, **kwargs)

    return alias_class(cls, {"invoke": invoke, "ainvoke": ainvoke}, _entrypoint_alias)


# -- the calls of a replayed node --------------------------------------------------------------------------------------


def _cross(_: Any, args: tuple[Any, ...], __: dict[str, Any]) -> SessionCall | None:
    given, config = args
    session = current_session()
    if session is None or config is None or "langgraph_node" not in (config.get("metadata") or {}):
        return None
    return cross_node(session, config["metadata"]["langgraph_node"], given, config)


def _describe(
    real: Callable[..., Any],
    cross: Cross,
    self: Any,
    /,
    input: Any,  # noqa: A002 - LangChain's name
    config: RunnableConfig | None = None,
    **kwargs: Any,
) -> Call:
    node = original_of(self)
    session_call = cross(self, (input, config), kwargs)
    return Call(
        session_call,
        lambda: real(node, input, config, **kwargs),
        executing=lambda: _executing(session_call, lambda watched: real(node, input, watched(config), **kwargs)),
        around=lambda: with_config(config),
        apply=apply,
        aapply=aapply,
    )


@contextmanager
def _executing(session_call: Any, call: Callable[[Any], Any]) -> Iterator[Callable[[], Any]]:
    with noting_effects(session_call) as watched:
        yield lambda: call(watched)


_SHAPES = {"invoke": plain, "ainvoke": coroutine, "stream": generator, "astream": async_generator}
NODES = Family(
    Runnable, {name: Leaf(shape, _cross, _describe) for name, shape in _SHAPES.items()}, defaults=frozenset(_SHAPES)
)
"""The runnables that nodes are bound to, where the node is replayed as a whole."""
