"""The pytest fixture knows which nodes have run."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import pytest
from langgraph.graph import START, StateGraph

from agenttape_core import use_cassette
from agenttape_core.pytest_plugin import TestCassette


class State(TypedDict):
    turns: int


@pytest.mark.parametrize("mode", ["all", "none"])
def test_nodes(tmp_path: Path, mode: str) -> None:
    """Nodes are listed in the order of their steps, recorded or replayed, and a replay writes no file."""

    def run() -> None:
        """Run two nodes, the second of them twice."""
        builder = StateGraph(State)
        builder.add_node("plan", lambda _: {"turns": 0})
        builder.add_node("act", lambda state: {"turns": state["turns"] + 1})
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "act")
        builder.add_conditional_edges("act", lambda state: "act" if state["turns"] < 2 else "__end__")
        builder.compile().invoke({"turns": 0})

    path = tmp_path / "a.yaml"
    with use_cassette(path, mode="all"):
        run()
    before = path.read_bytes()
    with use_cassette(path, mode=mode) as session:
        session.ledger.watch_steps()
        run()
        cassette = TestCassette(session, "test", "pytest")
        cassette.assert_nodes(["plan", "act", "act"])
        with pytest.raises(AssertionError, match="nodes of the run differ"):
            cassette.assert_nodes(["plan", "act"])
    if mode == "none":
        assert path.read_bytes() == before
