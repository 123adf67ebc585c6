"""Nodes that are served as a whole: they do not run on replay, and what they did is done again.

A served node is an alias of what the node is bound to, so whoever looks at the graph sees what was there: its class,
its function, whether it is a coroutine, the graphs inside it. Only the calls of it are taken.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.runnables import RunnableBinding, RunnableConfig
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from agenttape_core import ConfigurationError
from agenttape_core.integration import (
    Crossing,
    aintercept,
    aintercept_stream,
    alias_class,
    alias_of,
    current_session,
    intercept,
    intercept_stream,
    original_of,
)
from agenttape_langchain.integration import aapply, apply, noting_effects
from agenttape_langgraph._compat import RunnableCallable, is_function_node, is_sequence
from agenttape_langgraph.node_boundary import Serves, cross_node, is_served, with_config
from agenttape_langgraph.tasks import calling

_SERVES = "agenttape_serves"


def serving_nodes(graph: Any, serves: Serves) -> dict[str, Any]:
    """Return the nodes of a graph, those to be served in the place of what they are; the graph stays as it is.

    Raises:
        ConfigurationError: If no node of the graph, or of a graph that is a node of it, has one of the names.
    """
    _check_names(graph, serves)
    return _served_nodes(graph, serves)


def _served_nodes(graph: Any, serves: Serves) -> dict[str, Any]:
    return {name: _node(graph, name, node, serves) for name, node in graph.nodes.items()}


def _node(graph: Any, name: str, node: Any, serves: Serves) -> Any:
    bound = node.bound
    by_name = not isinstance(serves, bool) and not callable(serves)
    is_whole = by_name or (isinstance(graph, CompiledStateGraph) and not isinstance(bound, Pregel))
    if name != START and is_whole and is_served(serves, name):
        kind: Any = type(bound)
        whole = _sequence_class(kind)(bound=bound) if is_sequence(bound) else bound
        return node.copy({"bound": alias_of(whole, _node_alias, again=True), "subgraphs": node.subgraphs})
    if isinstance(bound, Pregel):
        nodes = _served_nodes(bound, serves)
        if all(nodes[name] is node for name, node in bound.nodes.items()):
            return node
        inner = object.__new__(type(bound))
        vars(inner).update(vars(bound), nodes=nodes)
        subgraphs = [inner if graph is bound else graph for graph in node.subgraphs]
        return node.copy({"bound": inner, "subgraphs": subgraphs})
    if not isinstance(graph, CompiledStateGraph) and is_function_node(bound):  # the function of an entrypoint
        return node.copy({"bound": _calling_node(bound, serves)})
    return node


@functools.cache
def _sequence_class(kind: type) -> Any:
    """Return a class of wholes that look like sequences of a class: LangGraph takes what is a sequence apart."""
    return type(kind.__name__, (RunnableBinding,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


def _calling_node(bound: Any, serves: Serves) -> Any:
    """Return the function of an entrypoint, whose calls of tasks with these names are served."""
    kind: Any = type(bound)
    cls: Any = _calling_alias(kind)
    twin = object.__new__(cls)
    vars(twin).update(vars(bound))
    vars(twin)[_SERVES] = serves
    return twin


def _check_names(graph: Any, serves: Serves) -> None:
    if isinstance(serves, bool) or callable(serves):
        return
    if not isinstance(graph, CompiledStateGraph):  # which tasks an entrypoint calls, only a run can tell
        return
    known = set(_names(graph))
    unknown = sorted(set(serves) - known)
    if unknown:
        raise ConfigurationError(
            f"serve_nodes: the graph has no node {', '.join(map(repr, unknown))}\n"
            f"  it has {', '.join(map(repr, sorted(known)))}; a graph that a function calls is taped by itself"
        )


def _names(graph: Any) -> Iterator[str]:
    for name, node in graph.nodes.items():
        if name != START:
            yield name
        if isinstance(node.bound, Pregel):
            yield from _names(node.bound)


@functools.cache
def _calling_alias(cls: type[RunnableCallable]) -> type:
    @functools.wraps(cls.invoke)
    def invoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        config = calling(config if config is not None else {}, vars(self)[_SERVES])
        with with_config(config):
            return cls.invoke(self, input, config, **kwargs)

    @functools.wraps(cls.ainvoke)
    async def ainvoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        config = calling(config if config is not None else {}, vars(self)[_SERVES])
        with with_config(config):
            return await cls.ainvoke(self, input, config, **kwargs)

    return alias_class(cls, {"invoke": invoke, "ainvoke": ainvoke}, _calling_alias)


# -- the alias of what a node is bound to ------------------------------------------------------------------------------


@functools.cache
def _node_alias(cls: type) -> type:
    methods = {"invoke": _invoke(cls), "ainvoke": _ainvoke(cls), "stream": _stream(cls), "astream": _astream(cls)}
    return alias_class(cls, methods, _node_alias)


def _cross(given: Any, config: RunnableConfig | None) -> Crossing | None:
    session = current_session()
    if session is None or config is None or "langgraph_node" not in (config.get("metadata") or {}):
        return None
    return cross_node(session, config["metadata"]["langgraph_node"], given, config)


def _invoke(cls: Any) -> Callable[..., Any]:
    @functools.wraps(cls.invoke)
    def invoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        crossing = _cross(input, config)
        node = original_of(self)
        if crossing is None:
            return node.invoke(input, config, **kwargs)

        def execute() -> Any:
            with noting_effects(crossing) as watched:
                return node.invoke(input, watched(config), **kwargs)

        with with_config(config):
            return intercept(crossing, execute, apply)

    return invoke


def _ainvoke(cls: Any) -> Callable[..., Any]:
    @functools.wraps(cls.ainvoke)
    async def ainvoke(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        crossing = _cross(input, config)
        node = original_of(self)
        if crossing is None:
            return await node.ainvoke(input, config, **kwargs)

        async def execute() -> Any:
            with noting_effects(crossing) as watched:
                return await node.ainvoke(input, watched(config), **kwargs)

        with with_config(config):
            return await aintercept(crossing, execute, aapply)

    return ainvoke


def _stream(cls: Any) -> Callable[..., Iterator[Any]]:
    @functools.wraps(cls.stream)
    def stream(self: Any, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        crossing = _cross(input, config)
        node = original_of(self)
        if crossing is None:
            yield from node.stream(input, config, **kwargs)
            return

        def execute() -> Iterator[Any]:
            with noting_effects(crossing) as watched:
                yield from node.stream(input, watched(config), **kwargs)

        with with_config(config):
            yield from intercept_stream(crossing, execute, apply)

    return stream


def _astream(cls: Any) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(cls.astream)
    async def astream(self: Any, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        crossing = _cross(input, config)
        node = original_of(self)
        if crossing is None:
            async for part in node.astream(input, config, **kwargs):
                yield part
            return

        async def execute() -> AsyncIterator[Any]:
            with noting_effects(crossing) as watched:
                async for part in node.astream(input, watched(config), **kwargs):
                    yield part

        with with_config(config):
            async for part in aintercept_stream(crossing, execute, aapply):
                yield part

    return astream
