"""Other orders of parallel branches and tools of a graph."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from inspect import isawaitable
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
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
        ended = program()
        if isawaitable(ended):
            asyncio.run(ended)  # type: ignore[arg-type]
    return orders(program, path)


@pytest.mark.parametrize("is_racy", [True, False])
@pytest.mark.parametrize(("way", "topics"), [("ainvoke", "ab"), ("invoke", "abc"), ("stream", "abc")])
def test_parallel_branches_are_answered_in_every_order(way: str, topics: str, is_racy: bool, tmp_path: Path) -> None:
    """A graph whose branches race, in tasks or in a pool, is found out, with the address; a sound one passes."""
    model = AsyncChat(world=World())

    def program() -> Any:
        """Let branches ask at once; a racy graph reports whatever was said first."""
        said: list[str] = []

        def noted(state: State, answer: AIMessage) -> Any:
            said.append(state["topic"])
            return {"notes": [answer.text]}

        async def aresearch(state: State) -> Any:
            return noted(state, await model.ainvoke(f"search {state['topic']}"))

        def report(state: State) -> Any:
            return {"notes": [model.invoke(f"write {said[0] if is_racy else state['notes']}").text]}

        research = RunnableLambda(lambda state: noted(state, model.invoke(f"search {state['topic']}")), aresearch)
        builder = StateGraph(State).add_node("research", research).add_node("report", report)
        sends = [Send("research", {"topic": topic}) for topic in topics]
        builder.add_conditional_edges(START, lambda _: sends, ["research"])
        graph = builder.add_edge("research", "report").compile()
        options = {"stream_mode": "values"} if way == "stream" else {}
        ended = getattr(graph, way)({"notes": [], "topic": ""}, **options)
        return [*ended] if way == "stream" else ended

    found = explored(program, tmp_path / "run.yaml")
    assert (found.orders, found.is_exhaustive, bool(found.findings)) == (len([*permutations(topics)]), True, is_racy)
    if is_racy and way == "ainvoke":
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
