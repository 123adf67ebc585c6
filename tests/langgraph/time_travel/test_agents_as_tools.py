"""Time travel enters a tool that is an agent: an answer inside it is edited, and the tool returns what follows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agenttape_core import open_cassette, use_cassette
from agenttape_langgraph import atime_travel, replay_thread, steps_of, time_travel

from ..fakes import StreamingChat, World, calling

QUESTION: Any = {"messages": [("user", "1 + 2?")]}


def turns(*calls: tuple[str, dict[str, Any]]) -> Any:
    """Return the replies of a model that calls tools one after the other, and then repeats what it was told."""

    def reply(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        if turn < len(calls):
            return calling(calls[turn], number=number)
        return AIMessage(f"{messages[-1].text}, said call {number}")

    return reply


def chief(world: World) -> Any:
    """Return an agent with an agent as its tool, which has a tool of its own."""

    @tool
    def add(a: int, b: int) -> str:
        """Add."""
        return f"{a + b} by call {world.reach('add')}"

    expert = create_agent(StreamingChat(world=world, reply=turns(("add", {"a": 1, "b": 2}))), [add])

    @tool
    def ask_expert(question: str) -> str:
        """Ask the expert."""
        return str(expert.invoke({"messages": [("user", question)]})["messages"][-1].text)

    return create_agent(StreamingChat(world=world, reply=turns(("ask_expert", {"question": "1 + 2?"}))), [ask_expert])


def recorded(world: World, path: Path) -> Any:
    """Record a run of the chief; return its end."""
    with use_cassette(path, mode="all"):
        return chief(world).invoke(QUESTION, {"configurable": {"thread_id": "1"}})


def test_untouched(world: World, path: Path) -> None:
    """Without a change nothing is executed, and the derived cassette is the recorded one."""
    values = recorded(world, path)
    world.gone = True
    fork = time_travel(path, chief(world))
    assert fork.values == values
    assert fork.live == ()
    assert fork.diff.identical, str(fork.diff)


def test_edited_answer_inside_a_tool(world: World, path: Path) -> None:
    """An edited answer of a call inside a tool diverges there; what depends on it is executed, and it all replays."""
    recorded(world, path)
    numbers = {row.name: row.number for row in open_cassette(path).entries}
    fork = time_travel(path, chief(world), answers={numbers["add"]: "SEEN"})
    assert fork.forked_at == f"edited answer of interaction {numbers['add']}"
    inner, outer = fork.live
    assert inner.address.startswith("LangGraph/tools@2[0]/ask_expert/")
    assert outer.address.startswith("LangGraph/model@3")
    said = fork.values["messages"][-1].text
    assert said.startswith("SEEN, said call ")
    divergence = fork.diff.first_divergence
    assert divergence is not None
    assert (divergence.what, divergence.first) == ("interaction", numbers["add"])
    derived = {row.name: row for row in open_cassette(fork.cassette).interactions()}
    assert derived["ask_expert"].outcome.value.startswith("SEEN, said call ")
    assert derived["add"].parent == derived["ask_expert"].number
    world.gone = True
    replayed = replay_thread(fork.cassette, chief(world))
    assert replayed.values == fork.values
    assert [call_record.name for call_record in replayed.report.stepped_into] == ["ask_expert"]


@pytest.mark.parametrize("step", [4, 5, 7])
async def test_edited_state_inside_a_tool(world: World, path: Path, step: int) -> None:
    """The state of an agent that a tool runs can be edited after its steps, sync and async, and it all replays."""
    recorded(world, path)
    before = steps_of(path)[step - 1]
    assert before.graph == "LangGraph/tools@2[0]/ask_expert/LangGraph"
    edit: Any = {"step": step, "state_update": {"messages": [AIMessage("NOTE")]}}
    fork = time_travel(path, chief(world), **edit)
    assert {call_record.kind for call_record in fork.live} == {"chat"}
    is_asked_inside = any(call_record.address.startswith(before.graph) for call_record in fork.live)
    assert is_asked_inside == (step == 4)  # an answer in the state ends the agent
    again = await atime_travel(path, chief(world), **edit, to=path.with_name("again.yaml"))
    assert [call_record.address for call_record in again.live] == [call_record.address for call_record in fork.live]
    world.gone = True
    assert replay_thread(fork.cassette, chief(world)).values == fork.values


def test_another_answer_of_a_human_in_a_tool(world: World, path: Path) -> None:
    """A tool that asks a model and then a human gets the other answer: it is stepped into, and not executed."""
    model = StreamingChat(world=world)

    @tool
    def publish(text: str) -> str:
        """Publish."""
        draft = model.invoke(f"Draft {text}").text
        return f"{draft}: {interrupt({'publish?': draft})}"

    replies = turns(("publish", {"text": "it"}))
    graph = create_agent(StreamingChat(world=world, reply=replies), [publish], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    with use_cassette(path, mode="all"):
        graph.invoke(QUESTION, config)
        graph.invoke(Command(resume="yes"), config)
    fork = time_travel(path, graph, resume="no", live={"chat"})
    assert [call_record.kind for call_record in fork.live] == ["chat"]
    assert ": no, said call " in fork.values["messages"][-1].text
    world.gone = True
    assert replay_thread(fork.cassette, graph).values == fork.values
