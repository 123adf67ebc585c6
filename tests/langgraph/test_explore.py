"""Other orders of parallel branches and tools of a graph."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableParallel
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send

from agenttape_core import use_cassette
from agenttape_core.experiments import orders

from .fakes import AsyncChat, StreamingChat, World, calling, numbered


class State(TypedDict):
    """The notes of all branches."""

    notes: Annotated[list[str], operator.add]
    topic: str


@tool
def here(place: str) -> str:
    """Look in a thread."""
    Path("seen").touch()  # so that a replay serves it
    return f"at {place}"


@tool
async def there(place: str) -> str:
    """Look in a task."""
    await asyncio.to_thread(Path("seen").touch)
    return f"in {place}"


def explored(program: Callable[[], Any], path: Path) -> Any:
    """Record a program, and explore it."""
    with use_cassette(path, mode="all"):
        asyncio.run(program())
    return orders(program, path)


@pytest.mark.parametrize("is_racy", [True, False])
def test_parallel_branches_are_answered_in_both_orders(tmp_path: Path, is_racy: bool) -> None:
    """A graph whose branches race is found out, with the address of the branch; a sound one passes."""

    def fan_out(model: Any, *, is_racy: bool) -> Any:
        """Return a graph with two branches that ask; a racy one reports whatever was said first."""
        said: list[str] = []

        async def research(state: State) -> Any:
            answer = await model.ainvoke(f"search {state['topic']}")
            said.append(state["topic"])
            return {"notes": [answer.text]}

        async def report(state: State) -> Any:
            return {"notes": [(await model.ainvoke(f"write {said[0] if is_racy else state['notes']}")).text]}

        builder = StateGraph(State).add_node("research", research).add_node("report", report)
        builder.add_conditional_edges(
            START, lambda _: [Send("research", {"topic": topic}) for topic in "ab"], ["research"]
        )
        return builder.add_edge("research", "report").compile()

    model = AsyncChat(world=World())

    async def program() -> Any:
        return await fan_out(model, is_racy=is_racy).ainvoke({"notes": [], "topic": ""})

    found = explored(program, tmp_path / "run.yaml")
    assert (found.orders, found.is_exhaustive, found.failing) == (2, True, int(is_racy))
    if is_racy:
        assert "smallest change: call 2 (chat AsyncChat) answers first" in str(found)


@pytest.mark.parametrize("is_racy", [True, False])
def test_parallel_tools_come_back_in_every_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_racy: bool
) -> None:
    """The tools of a `ToolNode` wait side by side, also those that run in threads."""
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    asked = [("here", {"place": "Rome"}), ("there", {"place": "Oslo"}), ("here", {"place": "Bonn"})]

    def reply(messages: Any, number: int) -> Any:
        return calling(*asked, number=number) if len(messages) == 1 else numbered(messages, number)

    model = AsyncChat(world=World(), reply=reply)

    async def program() -> Any:
        seen.clear()

        async def noting(request: Any, execute: Any) -> Any:
            result = await execute(request)
            seen.append(result.text)
            return result

        node = ToolNode([here, there], awrap_tool_call=noting)

        async def agent(state: MessagesState) -> Any:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState).add_node("agent", agent).add_node("tools", node).add_edge(START, "agent")
        graph = builder.add_conditional_edges("agent", tools_condition).add_edge("tools", "agent").compile()
        ended = await graph.ainvoke({"messages": [("user", "where?")]})
        return seen[:] if is_racy else [message.text for message in ended["messages"]]

    found = explored(program, tmp_path / "run.yaml")
    assert (found.orders, found.is_exhaustive, found.failing) == (6, True, 5 * is_racy)


@pytest.mark.parametrize("way", ["invoke", "stream"])
@pytest.mark.parametrize("is_racy", [True, False])
def test_branches_in_threads_are_answered_in_every_order(tmp_path: Path, is_racy: bool, way: str) -> None:
    """Synchronous graphs run their branches in a pool: a race in it is found, and a sound one raises no alarm."""

    def sync_fan_out(model: Any, *, is_racy: bool) -> Any:
        """Return a synchronous graph with three branches that ask; a racy one reports whatever was said first."""
        said: list[str] = []

        def research(state: State) -> Any:
            answer = model.invoke(f"search {state['topic']}")
            said.append(state["topic"])
            return {"notes": [answer.text]}

        def report(state: State) -> Any:
            return {"notes": [model.invoke(f"write {said[0] if is_racy else state['notes']}").text]}

        builder = StateGraph(State).add_node("research", research).add_node("report", report)
        builder.add_conditional_edges(
            START, lambda _: [Send("research", {"topic": topic}) for topic in "abc"], ["research"]
        )
        return builder.add_edge("research", "report").compile()

    model = StreamingChat(world=World())

    def program() -> Any:
        graph = sync_fan_out(model, is_racy=is_racy)
        asked: Any = {"notes": [], "topic": ""}
        return graph.invoke(asked) if way == "invoke" else [*graph.stream(asked, stream_mode="values")]

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        program()
    found = orders(program, tmp_path / "run.yaml")
    assert (found.orders, found.is_exhaustive, bool(found.findings)) == (6, True, is_racy)


def test_a_batch_is_answered_in_every_order(tmp_path: Path) -> None:
    """The calls of a batch, and the parts of a parallel chain, are made in threads."""
    model = StreamingChat(world=World())
    chain = RunnableParallel(first=model, second=model)

    def program() -> Any:
        return [message.text for message in model.batch(["a", "b"])], sorted(chain.invoke("c"))

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        program()
    found = orders(program, tmp_path / "run.yaml")
    assert found.ok, str(found)
    assert (found.orders, found.is_exhaustive) == (4, True)
