"""Checks and coverage over real graphs: branches, tools in parallel, a human who is asked first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from agenttape_core import open_cassette, use_cassette
from agenttape_core.checks import before, check, check_run, confirmed, exactly, run_of
from agenttape_core.cli.measures import Coverage

from .fakes import StreamingChat, World, calling, numbered


def look_up(order: str) -> str:
    """Find an order."""
    return f"{order} cost 5"


def refund(order: str) -> str:
    """Pay back."""
    return f"paid for {order}"


def agent(*wanted: tuple[str, dict[str, Any]], asks_for: tuple[str, ...] = ()) -> Any:
    """Return an agent that calls tools in one message, then answers, and waits for somebody before some of them."""

    def reply(messages: Any, number: int) -> Any:
        return calling(*wanted, number=number) if number == 1 else numbered(messages, number)

    middleware = [HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(asks_for, True))] if asks_for else []
    model = StreamingChat(world=World(), reply=reply, model_name="gpt-5-mini")
    return create_agent(model, [look_up, refund], middleware=middleware, checkpointer=InMemorySaver())


ORDER = {"order": "A-7"}
THREAD: Any = {"configurable": {"thread_id": "1"}}
ASK: Any = {"messages": [("user", "My money, please.")]}


def test_a_tool_that_was_confirmed(tmp_path: Path) -> None:
    """A tool that waited for an approval is confirmed, and the same tool without one is not."""
    with use_cassette(tmp_path / "asked.yaml", mode="all"):
        asked = agent(("refund", ORDER), asks_for=("refund",))
        asked.invoke(ASK, THREAD)
        asked.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert check(tmp_path / "asked.yaml", confirmed("refund"), exactly(["refund"])).findings == ()
    with use_cassette(tmp_path / "plain.yaml", mode="all"):
        agent(("refund", ORDER)).invoke(ASK, THREAD)
    with pytest.raises(AssertionError, match="refund was called without having been confirmed"):
        check(tmp_path / "plain.yaml", confirmed("refund"))


def test_tools_of_one_message_run_side_by_side(tmp_path: Path) -> None:
    """Of two tools that one message asks for, neither is before the other."""
    with use_cassette(tmp_path / "both.yaml", mode="all"):
        agent(("look_up", ORDER), ("refund", ORDER)).invoke(ASK, THREAD)
    (found,) = check_run(run_of(str(tmp_path / "both.yaml")), [before("look_up", "refund")]).findings
    assert found.message == "refund was called beside look_up, not after it"


def test_coverage_of_a_graph_with_branches(tmp_path: Path) -> None:
    """Coverage names exactly the nodes and edges that no run took, until one takes them."""

    class Trip(TypedDict, total=False):
        """The state of the graph."""

        kind: str

    builder = StateGraph(Trip)
    for name in ("route", "left", "right", "join"):
        builder.add_node(name, lambda state: {"kind": state["kind"]})
    builder.add_edge(START, "route").add_conditional_edges("route", lambda state: state["kind"], ["left", "right"])
    builder.add_edge("left", "join").add_edge("right", "join").add_edge("join", END)
    graph = builder.compile()
    found = Coverage()
    found.hold_against(graph)
    for kind, never in (("left", ["right"]), ("right", [])):
        with use_cassette(tmp_path / f"{kind}.yaml", mode="all"):
            graph.invoke({"kind": kind})
        found.add(open_cassette(tmp_path / f"{kind}.yaml"))
        assert found.never["nodes"] == never
        assert found.never["edges"] == [edge for name in never for edge in (f"{name} → join", f"route → {name}")]
    assert found.percent == 100
