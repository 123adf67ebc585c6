"""What a candidate may do with tools: the same call, other arguments, another tool, a recorded one too often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run

from .fakes import NativeChat, World, calling

Call = tuple[str, dict[str, str]]
WEATHER: Call = ("weather", {"city": "Paris"})
NEWS: Call = ("news", {"city": "Paris"})
KINDS: dict[str, tuple[list[Call], int]] = {
    "the same call": ([WEATHER], 0),
    "other arguments": ([("weather", {"city": "Rome"})], 1),
    "another tool": ([NEWS], 1),
    "too often": ([WEATHER, WEATHER], 1),
}
"""The calls of a candidate, and how many of them leave the recorded world."""


@pytest.fixture
def tools(world: World) -> list[Any]:
    """Tools that reach the world."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('tool')}"

    @tool
    def news(city: str) -> str:
        """Tell the news."""
        return f"none of {city} {world.reach('tool')}"

    return [weather, news]


def loop(model: Any, tools: list[Any]) -> str:
    """A loop of plain code."""
    messages: list[Any] = [("user", "?")]
    bound, by_name = model.bind_tools(tools), {each.name: each for each in tools}
    while (answer := bound.invoke(messages)).tool_calls:
        messages += [answer, *(by_name[call["name"]].invoke(call) for call in answer.tool_calls)]
    return str(answer.text)


def agent(model: Any, tools: list[Any]) -> str:
    """An agent of LangChain."""
    return str(create_agent(model, tools).invoke({"messages": [("user", "?")]})["messages"][-1].text)  # type: ignore[typeddict-item]


def graph(model: Any, tools: list[Any]) -> str:
    """A graph of LangGraph."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.bind_tools(tools).invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return str(builder.compile().invoke({"messages": [("user", "?")]})["messages"][-1].text)  # type: ignore[arg-type]


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", [loop, agent, graph], ids=lambda program: program.__name__)
def test_tools_are_held_still(  # noqa: PLR0917 - fixtures
    program: Callable[..., str],
    kind: str,
    tools: list[Any],
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was recorded is replayed, the rest is refused, kept and shown, and the derived cassette has the same end."""

    def replying(*calls: Call) -> Callable[[Sequence[BaseMessage], int], AIMessage]:
        """Return the replies of a model that makes calls in turn, then says what it has read."""

        def reply(messages: Sequence[BaseMessage], number: int) -> AIMessage:
            told = [message.text for message in messages if isinstance(message, ToolMessage)]
            return calling(calls[len(told)], number=number) if len(told) < len(calls) else AIMessage(f"read {told}")

        return reply

    calls, refused = KINDS[kind]
    own = NativeChat(world=world, reply=replying(WEATHER))
    recorded, derived = tmp_path / "run.yaml", tmp_path / "derived.yaml"
    with use_cassette(recorded, mode="all"):
        program(own, tools)
    executed = world.reached.count("tool")
    with use_cassette(recorded, candidate=NativeChat(world=world, reply=replying(*calls)), to=derived) as tried:
        answer = program(own, tools)
    assert world.reached.count("tool") == executed
    assert answer.count("The tool is not available.") == len(tried.report.unrecorded) == refused
    items = [item for item in open_cassette(derived).interactions() if item.kind == "tool"]
    assert [item.outcome.status for item in items].count("refused") == refused
    with use_cassette(derived) as replay:
        assert program(own, tools) == answer
    assert not replay.report.recorded
    assert run(["diff", str(recorded), str(derived)]) == 0
    said = capsys.readouterr().out
    assert ("refused" in said) == bool(refused)
    assert run(["show", str(derived)]) == 0
    assert capsys.readouterr().out.count("! refused: no recording; answered") == refused
