"""`tape`: one function for every object of a LangGraph project that can be taped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore

from agenttape_core.errors import ConfigurationError
from agenttape_langchain import tape as tape_other
from agenttape_langchain.integration import tape_within
from agenttape_langgraph.stores import tape_store

if TYPE_CHECKING:
    from agenttape_langgraph.node_boundary import ReplayNodes

T = TypeVar("T")


def tape(obj: T, *, replay_nodes: ReplayNodes = ()) -> T:
    """Return an object of the same kind that takes part in the session in force; without a session it behaves the same.

    A taped graph executes on every replay: its nodes run, and their calls are replayed. It needs no automatic session.
    The given graph doesn't change. Taping twice is taping once.

    Args:
        obj: A compiled graph of any kind, also within `with_retry`, `with_fallbacks` and the like; a builder, whose
            `compile` then returns taped graphs; an `@entrypoint`; a `@task`, which is replayed as a whole; a store. An
            object that is not LangGraph's is taped as by `agenttape_langchain.tape`.
        replay_nodes: The nodes to replay as a whole, without running them, even in graphs that are nodes of this one:
            their names, a predicate of a name, or `True` for all nodes that aren't graphs. For an entrypoint, the
            tasks.

    Raises:
        ConfigurationError: If `obj` cannot be taped.
    """
    if replay_nodes and not isinstance(obj, StateGraph | Pregel):
        raise ConfigurationError(
            f"replay_nodes={replay_nodes!r}: {type(obj).__qualname__} has no nodes; expected a graph or its builder"
        )
    if isinstance(replay_nodes, str):
        replay_nodes = {replay_nodes}
    taped = tape_own(obj, replay_nodes)
    return taped if taped is not None else tape_other(obj)


def tape_own(obj: Any, replay_nodes: ReplayNodes = ()) -> Any:
    """Tape an object of LangGraph; return `None` for any other."""
    # Imported here, as a session needs none of it.
    from agenttape_langgraph.graphs import tape_builder, tape_graph
    from agenttape_langgraph.tasks import is_task, tape_task

    if isinstance(obj, StateGraph):
        return tape_builder(obj, replay_nodes)
    if is_task(obj):
        return tape_task(obj)
    if isinstance(obj, BaseStore):
        return tape_store(obj)
    if isinstance(obj, Runnable):
        return tape_within(obj, lambda leaf: tape_graph(leaf, replay_nodes) if isinstance(leaf, Pregel) else None)
    return None
