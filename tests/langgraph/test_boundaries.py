"""Functions of the user's that are boundaries, called in nodes: they have their place in the graph."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph

from agenttape_core import boundary, open_cassette, use_cassette

if TYPE_CHECKING:
    from pathlib import Path

numbers = itertools.count(1)


@boundary
def greet(name: str) -> str:
    """Greet, never twice alike."""
    return f"{name} {next(numbers)}"


@boundary
async def agreet(name: str) -> str:
    """Greet, never twice alike."""
    return f"{name} {next(numbers)}"


class State(TypedDict):
    """A greeting."""

    said: str


def node(_: State) -> dict[str, str]:
    """Greet in plain code."""
    return {"said": greet("Bob")}


async def anode(_: State) -> dict[str, str]:
    """Greet in awaited code."""
    return {"said": await agreet("Bob")}


@pytest.mark.parametrize("code", [node, anode], ids=["plain", "awaited"])
async def test_conversations_keep_what_their_nodes_were_answered(
    code: Callable[[State], dict[str, str] | Awaitable[dict[str, str]]], tmp_path: Path
) -> None:
    """Two conversations ask the same in a node; each has its own answer again, whichever begins first."""
    builder: Any = StateGraph(State)
    builder.add_node("node", code)
    builder.add_edge(START, "node")
    graph = builder.compile()

    async def run(*threads: str) -> dict[str, str]:
        config = {thread: {"configurable": {"thread_id": thread}} for thread in threads}
        return {thread: (await graph.ainvoke({"said": ""}, config[thread]))["said"] for thread in threads}

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        recorded = await run("a", "b")
    with use_cassette(path, mode="none") as session:
        assert await run("b", "a") == recorded
    assert {replayed.match_rule for replayed in session.report.replayed} == {"exact"}
    assert [row.address for row in open_cassette(path).entries] == [
        f"LangGraph{run}/node@1/{'greet' if code is node else 'agreet'}" for run in ("", "#2")
    ]
