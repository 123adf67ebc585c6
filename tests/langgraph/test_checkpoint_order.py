"""Checkpoints of a session are in the order in which they were made, across namespaces too, as they are without one."""

# ruff: noqa: D103 - what is no test says by its name what it is

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from agenttape_core import use_cassette

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    value: Annotated[list[str], operator.add]


def chain(*nodes: tuple[str, Any], checkpointer: Any = None) -> Any:
    builder: Any = StateGraph(State)
    for (name, node), before in zip(nodes, [START, *(name for name, _ in nodes)], strict=False):
        builder.add_node(name, node).add_edge(before, name)
    return builder.compile(checkpointer=checkpointer)


def replayed_outer_graph() -> Any:
    """Run a graph with a subgraph that remembers twice, then its second run again from before the subgraph."""
    seen: list[Any] = []

    def look(state: State) -> Any:
        seen.append(list(state["value"]))
        return {"value": ["s"]}

    inner = chain(("deep", chain(("look", look), checkpointer=True)), checkpointer=True)
    graph = chain(("before", lambda _: {"value": []}), ("inner", inner), checkpointer=InMemorySaver())
    for _ in range(2):
        graph.invoke({"value": []}, CONFIG)
    history = list(graph.get_state_history(CONFIG))
    for state in [each for each in history if each.next == ("inner",)]:
        graph.invoke(None, state.config)
    return seen


def branch_by_time() -> Any:
    """Run a graph again from the middle, and return its states as they are sorted by the time of their creation."""
    graph = chain(*((name, lambda _, n=name: {"value": [n]}) for name in "abc"), checkpointer=InMemorySaver())
    graph.invoke({"value": []}, CONFIG)
    middle = next(state for state in graph.get_state_history(CONFIG) if state.next == ("b",))
    graph.invoke(None, middle.config)
    states = sorted(graph.get_state_history(CONFIG), key=lambda state: str(state.created_at))
    return [(state.next, state.values) for state in states]


@pytest.mark.parametrize("program", [replayed_outer_graph, branch_by_time])
def test_time_travel_in_a_session_is_that_of_a_plain_run(program: Callable[[], Any], tmp_path: Path) -> None:
    """A subgraph begins with the state that it had then, and the newest checkpoint is the newest."""
    plain = program()
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode):
            assert program() == plain
