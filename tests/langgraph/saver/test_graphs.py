"""Real graphs on the saver: LangGraph works as with its own savers."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict
from unittest import mock

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, Send, interrupt

from agenttape_langgraph import TapeSaver

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    found: Annotated[list[str], operator.add]


def graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Return a graph with parallel branches, a subgraph that asks, and a loop."""

    def look(state: Any) -> Any:
        return {"found": [f"looked at {state['it']}"]}

    def ask(state: State) -> Any:
        return {"messages": [AIMessage(f"asked: {interrupt('go on?')}", id=f"ask-{len(state['messages'])}")]}

    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    inner.add_edge("ask", END)
    builder = StateGraph(State)
    builder.add_node("look", look)
    builder.add_node("talk", inner.compile())
    builder.add_conditional_edges(START, lambda _: [Send("look", {"it": number}) for number in range(4)], ["look"])
    builder.add_edge("look", "talk")
    builder.add_edge("talk", END)
    return builder.compile(checkpointer=saver)


@contextmanager
def same_ids() -> Iterator[None]:
    """Make checkpoint ids and times the same in every run."""
    numbers = itertools.count()

    def next_id(*_: Any, **__: Any) -> Any:
        return f"1f000000-0000-6000-8000-{next(numbers):012}"

    with (
        mock.patch("langgraph.pregel._checkpoint.uuid6", next_id),
        mock.patch("langgraph.checkpoint.base.uuid6", next_id),
    ):
        yield


def facts(app: Any) -> list[Any]:
    """Return all that there is to see of a thread, but for the times."""
    history = [state._replace(created_at=None) for state in app.get_state_history(CONFIG)]
    inner = [
        task.state and task.state._replace(created_at=None) for task in app.get_state(CONFIG, subgraphs=True).tasks
    ]
    return [history, inner, app.get_state(CONFIG).values]


def drive(app: Any) -> list[Any]:
    """Run, answer, look, go back, fork and update."""
    app.invoke({"messages": [HumanMessage("hello", id="h")], "found": []}, CONFIG)
    seen = [facts(app)]
    app.invoke(Command(resume="yes"), CONFIG)
    seen.append(facts(app))
    past = [state for state in app.get_state_history(CONFIG) if "talk" in state.next][-1]
    forked = app.update_state(past.config, {"found": ["edited"]}, as_node="look")
    app.invoke(None, forked)
    app.invoke(Command(resume="no"), CONFIG)
    return [*seen, facts(app)]


@pytest.mark.parametrize("around", [False, True])
def test_a_thread_is_what_it_is_with_langgraphs_saver(around: bool, path: Path) -> None:
    """Interrupts, subgraphs, branches, forks and updates give the same history, field by field."""
    with same_ids():
        expected = drive(graph(InMemorySaver()))
    with TapeSaver(path, inner=InMemorySaver() if around else None) as saver, same_ids():
        assert drive(graph(saver)) == expected
        assert facts(graph(saver.local)) == expected[-1]
    with TapeSaver(path) as again:
        assert facts(graph(again)) == expected[-1]


def test_equal_runs_make_equal_checkpoints(tmp_path: Path) -> None:
    """Two runs with the same ids have the same versions of channels: nothing random is in a checkpoint."""
    found = []
    for number in range(2):
        with TapeSaver(tmp_path / f"{number}.sqlite") as saver, same_ids():
            drive(graph(saver))
            found.append([{**it.checkpoint, "ts": ""} for it in saver.list(None)])
    assert found[0] == found[1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability(durability: Any, saver: TapeSaver) -> None:
    """However LangGraph saves, the thread can be resumed."""
    app = graph(saver)
    app.invoke({"messages": [HumanMessage("hello", id="h")], "found": []}, CONFIG, durability=durability)
    app.invoke(Command(resume="yes"), CONFIG, durability=durability)
    values = app.get_state(CONFIG).values
    assert [message.content for message in values["messages"]] == ["hello", "asked: yes"]
    assert values["found"] == [f"looked at {number}" for number in range(4)] * 2  # and once more from the subgraph
