"""Recording an unchanged run again changes nothing that a reviewer reads; and errors come back as what they were."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agenttape_core import use_cassette

from .fakes import NativeChat, World, calling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback


def stable_part(path: Path) -> str:
    """A cassette without the block of its header that may change with each recording."""
    text = path.read_text("utf-8")
    stable, blocks = re.subn(r"(?m)^volatile:\n(?:  .*\n)*", "", text)
    assert blocks == 1, "the header has one volatile block"
    return stable


def travel_agent() -> Any:
    """A scripted agent of several turns, with parallel tools, a sub agent and an error, in whatever order they end."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"{city} is fine"

    @tool
    def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    fail.handle_tool_error = True

    def inner_reply(messages: Sequence[Any], number: int) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("inner done")
        return calling(("weather", {"city": "Rome"}), number=1)

    inner = create_agent(NativeChat(world=World(), reply=inner_reply), [weather])

    @tool
    def delegate(task: str) -> str:
        """Ask another agent."""
        return str(inner.invoke({"messages": [("user", task)]})["messages"][-1].text)

    def reply(messages: Sequence[Any], number: int) -> AIMessage:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        if turn == 0:
            return calling(*[("weather", {"city": city}) for city in ("Paris", "Oslo", "Bern")], number=1)
        if turn == 1:
            return calling(("delegate", {"task": "Rome?"}), ("weather", {"city": "Oslo"}), number=2)
        return AIMessage("All fine.\n\nGood bye.")

    return create_agent(NativeChat(world=World(), reply=reply), [weather, delegate], system_prompt="Travel!")


QUESTION = {"messages": [("user", "Where to?")]}


async def invoke(agent: Any) -> None:
    agent.invoke(QUESTION)


async def ainvoke(agent: Any) -> None:
    await agent.ainvoke(QUESTION)


async def stream(agent: Any) -> None:
    for _ in agent.stream(QUESTION, stream_mode=["messages", "updates"]):
        pass


async def astream_events(agent: Any) -> None:
    async for _ in agent.astream_events(QUESTION, version="v2"):
        pass


async def two_at_once(agent: Any) -> None:
    await asyncio.gather(ainvoke(agent), ainvoke(agent))


async def a_batch(agent: Any) -> None:
    agent.batch([QUESTION] * 2)


SHAPES = [invoke, ainvoke, stream, astream_events, two_at_once, a_batch]


@pytest.mark.parametrize("shape", SHAPES)
async def test_recording_elsewhere_changes_nothing(
    shape: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two people who record the same run with the same redaction key, each in a folder of their own, get one file."""
    monkeypatch.setenv("AGENTTAPE_REDACTION_KEY", "0f" * 32)
    seen = []
    for person in ("ada", "bob"):
        path = tmp_path / person / "trip.yaml"
        with use_cassette(path, mode="all"):
            await shape(travel_agent())
        seen.append(stable_part(path))
    assert seen[0] == seen[1]


def test_only_what_changed_changes(tmp_path: Path) -> None:
    """Recorded anew with another last answer, the file differs in that answer only."""
    path = tmp_path / "chat.yaml"
    files = []
    for last in ("first version", "second version"):
        answers = iter(["same", last])
        model = NativeChat(world=World(), reply=lambda messages, number, answers=answers: AIMessage(next(answers)))
        with use_cassette(path, mode="all"):
            model.invoke("one")
            model.invoke("two")
        files.append(stable_part(path).splitlines())
    different = [(old, new) for old, new in zip(*files, strict=True) if old != new]
    assert [(old.strip(), new.strip()) for old, new in different] == [
        (line.strip(), line.replace("first", "second").strip()) for line in files[0] if "first version" in line
    ]


# -- errors of a provider ------------------------------------------------------------------------------------------


def chat(server: OpenAILoopback) -> ChatOpenAI:
    """OpenAI's own client, which does not try again by itself."""
    return ChatOpenAI(model="gpt-5-mini", base_url=server.base_url, api_key=SecretStr("x"), max_retries=0)


def test_connection_error(loopback: OpenAILoopback, tmp_path: Path) -> None:
    """A service that was not there when recording is not there on replay."""
    import openai

    model = chat(loopback)
    loopback.stop()
    path = tmp_path / "chat.yaml"
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode), pytest.raises(openai.APIConnectionError):
            model.invoke("hello")


@pytest.mark.process
def test_error_where_the_provider_is_not_loaded(loopback: OpenAILoopback, tmp_path: Path) -> None:
    """If the provider's package is not imported, an error that names the original takes its place."""
    import openai

    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all"), pytest.raises(openai.RateLimitError):
        loopback.fail_next(429, message="slow down, please")
        chat(loopback).invoke("hello")
    loopback.stop()
    script = textwrap.dedent("""
        import sys
        from agenttape_core.errors import ReplayedError
        from agenttape_langchain import ReplayChatModel
        from langchain_core import exceptions

        try:
            ReplayChatModel(sys.argv[1]).invoke("hello")
        except ReplayedError as error:
            # The framework has a class of its own for it from langchain-core 1.7 on.
            named = type(error).__name__.endswith("RateLimitError")
            assert named == hasattr(exceptions, "ModelRateLimitError"), type(error)
            assert error.type_name.endswith("RateLimitError"), error.type_name
            assert "slow down, please" in str(error), error
            assert error.status_code == 429
            assert "openai" not in sys.modules
            print("as expected")
    """)
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout == "as expected\n", done.stderr
