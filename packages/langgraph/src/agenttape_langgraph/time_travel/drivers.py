"""Make the journey: the same way, synchronously and asynchronously."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from agenttape_langgraph.time_travel.script import Action, Invoke, Update, Way

Graph = Pregel[Any, Any, Any, Any]

_DURABILITY: Literal["sync"] = "sync"
"""A checkpoint is kept before the next step begins, so that the graph can be left between them."""


def drive(way: Way, graph: Graph, context: Any) -> StateSnapshot:
    """Make a journey; return the state at its end."""

    def do(action: Action) -> Any:
        if isinstance(action, Invoke):
            return graph.invoke(action.input, action.config, context=context, durability=_DURABILITY)
        if isinstance(action, Update):
            return graph.update_state(action.config, action.values, action.as_node)
        return graph.get_state(action.config)

    try:
        action = next(way)
        while True:
            try:
                came = do(action)
            except Exception as error:  # noqa: BLE001 - the way decides what an error means
                action = way.throw(error)
            else:
                action = way.send(came)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def adrive(way: Way, graph: Graph, context: Any) -> StateSnapshot:
    """Make a journey asynchronously; return the state at its end."""

    async def do(action: Action) -> Any:
        if isinstance(action, Invoke):
            return await graph.ainvoke(action.input, action.config, context=context, durability=_DURABILITY)
        if isinstance(action, Update):
            return await graph.aupdate_state(action.config, action.values, action.as_node)
        return await graph.aget_state(action.config)

    try:
        action = next(way)
        while True:
            try:
                came = await do(action)
            except Exception as error:  # noqa: BLE001 - the way decides what an error means
                action = way.throw(error)
            else:
                action = way.send(came)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def in_memory(graph: Graph, saver: Any) -> Graph:
    """Return the same graph with another saver; the user's own is left alone."""
    copied = object.__new__(type(graph))
    vars(copied).update(vars(graph))
    copied.checkpointer = saver
    return copied
