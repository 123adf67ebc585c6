"""A graph whose code has changed is found out: by node and superstep, and nowhere else."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedCallError
from agenttape_langgraph import tape

from .fakes import AsyncChat, World

if TYPE_CHECKING:
    from pathlib import Path


class State(TypedDict):
    """The findings of nodes."""

    n: int
    found: Annotated[list[str], operator.add]


def graph_of(world: World, edit: str = "") -> Any:
    """Plan, three branches, and an end, of which the test edits something."""
    model = AsyncChat(world=world)

    @tool
    def look(n: int) -> str:
        """Look."""
        return f"seen {n} at {world.reach('tool')}"

    def plan(state: State) -> dict[str, Any]:
        if edit == "raises":
            raise ValueError("edited")
        return {"found": [model.invoke("plan").text]}

    def branch(state: State) -> dict[str, Any]:
        prompt = f"branch {state['n']}" + (", edited" if edit == "prompt" and state["n"] == 1 else "")
        try:
            found = model.invoke(prompt).text
        except UnrecordedCallError as unrecorded:
            found = str(unrecorded)
        seen = [look.invoke({"n": 7})] if edit == "tool" and state["n"] == 2 else []
        return {"found": [found, look.invoke({"n": state["n"]}), *seen]}

    async def abranch(state: State) -> dict[str, Any]:
        return branch(state)

    def fan(state: State) -> list[Send]:
        return [Send("branch", {"n": n, "found": []}) for n in range(3)]

    builder = StateGraph(State).add_node("plan", plan, retry_policy=RetryPolicy(max_attempts=3))
    builder.add_node("branch", branch).add_edge(START, "plan").add_conditional_edges("plan", fan, ["branch"])
    return tape(builder.add_edge("branch", END).compile())


def replay(world: World, path: Path, edit: str, **options: Any) -> Any:
    with use_cassette(path, mode="all", auto=False):
        graph_of(world).invoke({"n": 0, "found": []})
    world.gone = True
    with use_cassette(path, auto=False, **options) as session:
        result = graph_of(world, edit).invoke({"n": 0, "found": []}, {"max_concurrency": 1})
    return result, session


def test_a_node_that_raises(world: World, tmp_path: Path) -> None:
    """A node that raises now ends the replay with its error, after the attempts of its retry policy."""
    with pytest.raises(ValueError, match="edited") as raised:
        replay(world, tmp_path / "c.yaml", "raises")
    assert any("task with name 'plan'" in note for note in raised.value.__notes__)


def test_a_node_that_calls_one_tool_more(world: World, tmp_path: Path) -> None:
    """The miss of a call that was not recorded names the node, its superstep and its branch."""
    with pytest.raises(CassetteMissError) as missed:
        replay(world, tmp_path / "c.yaml", "tool")
    assert missed.value.address == "LangGraph/branch@2[2]/look"
    assert 'node "branch", step 2' in str(missed.value)


def test_an_edited_branch(world: World, tmp_path: Path) -> None:
    """An edited prompt in one of three branches is the only miss; all else is replayed where it was recorded."""
    result, session = replay(world, tmp_path / "c.yaml", "prompt", on_miss="return", on_unused="ignore")
    assert len(result["found"]) == 7
    assert [str(replayed).split(" at ")[1] for replayed in session.report.replayed] == [
        "LangGraph/plan@1/AsyncChat (exact)",
        "LangGraph/branch@2[0]/AsyncChat (exact)",
        "LangGraph/branch@2[0]/look (exact)",
        "LangGraph/branch@2[1]/look (exact)",
        "LangGraph/branch@2[2]/AsyncChat (exact)",
        "LangGraph/branch@2[2]/look (exact)",
    ]
    (unrecorded,) = session.report.unrecorded
    assert unrecorded.address == "LangGraph/branch@2[1]/AsyncChat"
    (unused,) = session.report.unused
    assert unused.address == "LangGraph/branch@2[1]/AsyncChat"
