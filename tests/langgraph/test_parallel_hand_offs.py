"""Of tasks of one superstep that hand over, or fail, at once, a graph raises one: the same one in each replay."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agenttape_core import use_cassette
from agenttape_langchain import TapeCallbackHandler

from .fakes import Call, PlainChat, Twice, World, arun, call, calling, numbered, run
from .observed_programs import SwarmAgentState, SwarmState, hand_off_to

NAMES = ("bob", "carol", "dave")


def swarm(world: World) -> Any:
    """A swarm whose first agent hands over to all others at once."""

    def reply(messages: Any, number: int) -> AIMessage:
        if not isinstance(messages[-1], HumanMessage):
            return numbered(messages, number)
        return calling(*((f"transfer_to_{name}", {}) for name in (*NAMES, *NAMES)), number=number)

    tools = [hand_off_to(name) for name in NAMES]
    first = create_agent(PlainChat(world=world, reply=reply), tools, name="alice", state_schema=SwarmAgentState)
    builder = StateGraph(SwarmState).add_node("alice", first, destinations=NAMES).add_edge(START, "alice")
    for name in NAMES:
        builder.add_node(name, create_agent(PlainChat(world=world, model_name=name), [], name=name))
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
def test_hand_offs_at_once(is_async: bool, world: World, tmp_path: Path) -> None:
    """The hand-off that has won wins in each replay, wherever in memory the tasks of the graph lie."""
    kept: list[Any] = []  # so that the next graph lies elsewhere in memory

    def drive(_: str) -> Any:
        kept.append(swarm(world))
        config: Any = {"configurable": {"thread_id": "1"}}
        return (yield call(kept[-1], "invoke", {"messages": [("user", "Rain?")]}, config))

    for number in range(4):
        recorded, replayed = Twice(is_async=is_async)(world, tmp_path / f"{number}.yaml", drive)
        assert replayed.facts == recorded.facts
        assert (replayed.session.report.unused, replayed.session.report.nondeterminism) == ((), ())


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
def test_hand_offs_at_once_that_were_observed(is_async: bool, world: World, tmp_path: Path) -> None:
    """The hand-off that a handler has seen to win wins in a replay."""

    def _one(call: Call) -> Generator[Call, Any, Any]:
        return (yield call)

    kept: list[Any] = []

    def drive(**config: Any) -> list[str]:
        kept.append(swarm(world))
        config["configurable"] = {"thread_id": "1"}
        calls = _one(call(kept[-1], "invoke", {"messages": [("user", "Rain?")]}, config))
        found = asyncio.run(arun(calls)) if is_async else run(calls)
        return [f"{message.type} {message.content}" for message in found["messages"]]

    for number in range(4):
        world.gone = False
        with TapeCallbackHandler(tmp_path / f"{number}.jsonl") as handler:
            observed = drive(callbacks=[handler])
        world.gone = True
        for _ in range(2):
            with use_cassette(tmp_path / f"{number}.jsonl") as session:
                assert drive() == observed
            assert (handler.errors, session.report.unused, session.report.nondeterminism) == ([], (), ())


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
def test_errors_at_once(is_async: bool, world: World, tmp_path: Path) -> None:
    """Of nodes that fail at once, the error of the same one is raised in each replay."""

    def _told(graph: Any) -> Any:
        """Return functions that return the error with which a graph fails, as text."""

        def invoke(given: Any) -> str:
            with pytest.raises(LookupError) as raised:
                graph.invoke(given)
            return str(raised.value)

        async def ainvoke(given: Any) -> str:
            with pytest.raises(LookupError) as raised:
                await graph.ainvoke(given)
            return str(raised.value)

        return invoke, ainvoke

    kept: list[Any] = []

    def failing(name: str) -> Any:
        def node(_: MessagesState) -> Any:
            raise LookupError(name)

        async def anode(_: MessagesState) -> Any:
            raise LookupError(name)

        return RunnableLambda(node, anode, name=name)

    def drive(_: str) -> Any:
        builder = StateGraph(MessagesState)
        for name in NAMES:
            builder.add_node(name, failing(name)).add_edge(START, name)
        kept.append(builder.compile())
        return (yield call(RunnableLambda(*_told(kept[-1])), "invoke", {"messages": []}))

    for number in range(4):
        recorded, replayed = Twice(is_async=is_async)(world, tmp_path / f"{number}.yaml", drive)
        assert replayed.facts == recorded.facts
