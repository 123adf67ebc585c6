"""A run that lives on after a miss gets what its framework takes for a failed tool or model: `on_miss="return"`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool

from agenttape_core import use_cassette
from agenttape_core.errors import UnrecordedCallError

from .fakes import NativeChat, World, asking_for


@pytest.mark.parametrize("shape", ["sync", "async"])
async def test_another_model_with_recorded_tools(shape: str, world: World, tmp_path: Path) -> None:
    """A candidate model runs live against recorded tools; a call that was not recorded is an error it can read."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('weather')}"

    path = tmp_path / "weather.yaml"
    question: Any = {"messages": [("user", "weather?")]}
    with use_cassette(path, mode="all"):
        create_agent(NativeChat(world=world, reply=asking_for("Paris")), [weather]).invoke(question)
    candidate = create_agent(NativeChat(world=world, reply=asking_for("Paris", "Rome")), [weather])
    with use_cassette(path, live={"chat"}, on_miss="return") as session:
        result = candidate.invoke(question) if shape == "sync" else await candidate.ainvoke(question)
    messages = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert [message.status for message in messages] == ["success", "error"]
    assert messages[0].text == "sunny in Paris 2"
    assert messages[1].text == "The tool is not available."  # no words of ours, which would bias the candidate
    assert session.report.unrecorded[0].startswith("weather was called with a request")
    assert result["messages"][-1].text == f"said: {messages[1].text}"
    assert len(session.report.unrecorded) == 1
    assert world.reached.count("weather") == 1


def test_results_of_every_form(world: World, tmp_path: Path) -> None:
    """The error has the form that the caller of the tool expects: a text, a message, or one with an artifact."""

    def find(city: str) -> tuple[str, int]:
        return city, 1

    plain = StructuredTool.from_function(lambda city: city, name="plain", description="Plain.")
    both = StructuredTool.from_function(find, name="both", description="Both.", response_format="content_and_artifact")
    path = tmp_path / "tools.yaml"
    with use_cassette(path, mode="all"):
        pass
    with use_cassette(path, on_miss="return"):
        for subject in (plain, both):
            text = subject.invoke({"city": "Rome"})
            call = {"name": subject.name, "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}
            message = subject.invoke(call)
            assert text == "The tool is not available."
            assert (message.status, message.tool_call_id, message.name) == ("error", "c1", subject.name)
            assert message.text == text


def test_a_model_raises(world: World, tmp_path: Path) -> None:
    """A model has no error result: it raises an ordinary error, which fallbacks and retries may handle."""
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all"):
        NativeChat(world=world).invoke("recorded")
    with use_cassette(path, on_miss="return") as session:
        with pytest.raises(UnrecordedCallError, match="NativeChat was called with a request"):
            NativeChat(world=world).invoke("new")
        guarded = NativeChat(world=world).with_fallbacks([RunnableLambda(lambda _: "fallback")])
        assert guarded.invoke("newer") == "fallback"
    assert len(session.report.unrecorded) == 2
