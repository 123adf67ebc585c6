"""Another LLM is tried on a recorded run: `candidate=`, with the tools held still."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.llms import LLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.tools import FunctionTool

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError

from ..kit.world import World
from .fakes import CALLS, CallingLLM, as_async, done
from .scripted import Reply, ScriptedLLM


def asking_for(*cities: str) -> Callable[[Sequence[ChatMessage], Sequence[str]], Reply]:
    """Return a script that requests the weather of each city in turn, then repeats the last tool's answer."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        told = [message for message in messages if message.role == "tool"]
        if len(told) < len(cities) and tools:
            return [("weather", {"city": cities[len(told)]})]
        return f"told {told[-1].content if told else 'nothing'}"

    return script


pytestmark = [  # of LlamaIndex's own code
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


class Kin(ScriptedLLM):
    """A candidate of the same client."""


@pytest.fixture
def run(world: World) -> Callable[[], str]:
    """Run the program, and return its answer."""

    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('weather')}"

    async def ask(llm: LLM) -> str:
        return str(await FunctionAgent(tools=[FunctionTool.from_defaults(weather)], llm=llm).run("weather?"))

    return lambda: asyncio.run(ask(ScriptedLLM(world, asking_for("Paris"))))


@pytest.fixture
def recorded(run: Callable[[], str], tmp_path: Path) -> Path:
    """The recording of the program with its own LLM."""
    path = tmp_path / "weather.yaml"
    with use_cassette(path, mode="all"):
        run()
    return path


KINDS: dict[str, tuple[list[tuple[str, str]], int]] = {
    "the same call": ([("weather", "Paris")], 0),
    "other arguments": ([("weather", "Rome")], 1),
    "another tool": ([("news", "Paris")], 1),
    "too often": ([("weather", "Paris"), ("weather", "Paris")], 1),
}
"""The calls of a candidate, and how many of them leave the recorded world."""


@pytest.mark.parametrize("kind", KINDS)
def test_tools_are_held_still(kind: str, world: World, tmp_path: Path) -> None:
    """What was recorded is replayed, the rest is refused and kept, and the derived cassette has the same end."""

    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('tool')}"

    def news(city: str) -> str:
        """Tell the news."""
        return f"none of {city} {world.reach('tool')}"

    def replying(*calls: tuple[str, str]) -> ScriptedLLM:
        def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
            told = [message.content for message in messages if message.role == "tool"]
            return [(calls[len(told)][0], {"city": calls[len(told)][1]})] if len(told) < len(calls) else f"read {told}"

        return ScriptedLLM(world, script)

    async def ask() -> str:
        tools = [FunctionTool.from_defaults(weather), FunctionTool.from_defaults(news)]
        return str(await FunctionAgent(tools=tools, llm=replying(("weather", "Paris"))).run("?"))

    calls, refused = KINDS[kind]
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        asyncio.run(ask())
    executed, derived = world.reached.count("tool"), tmp_path / "derived.yaml"
    with use_cassette(tmp_path / "run.yaml", candidate=replying(*calls), to=derived) as tried:
        answer = asyncio.run(ask())
    assert world.reached.count("tool") == executed
    assert answer.count("The tool is not available.") == len(tried.report.unrecorded) == refused
    statuses = [item.outcome.status for item in open_cassette(derived).interactions() if item.kind == "tool"]
    assert statuses.count("refused") == refused
    with use_cassette(derived) as replay:
        assert asyncio.run(ask()) == answer
    assert not replay.report.recorded


def test_a_candidate_of_another_client(run: Callable[[], str], recorded: Path, world: World) -> None:
    """Tools are offered to a candidate of another class by its own method, and its tool calls are understood."""
    candidate = CallingLLM(world)
    fakes = {"weather": lambda **given: f"rain {sorted(given)}"}
    with (
        use_cassette(recorded, candidate=candidate, fakes=fakes) as session,
        pytest.raises(Exception, match="iterations"),
    ):
        run()  # it calls a tool each time that it is offered one
    assert {call_record.name for call_record in session.report.faked} == {"weather"}


@pytest.mark.parametrize("shape", CALLS)
@pytest.mark.parametrize("kind", [Kin, CallingLLM])
def test_each_shape(kind: Any, shape: str, world: World, tmp_path: Path) -> None:
    """The candidate answers in each shape of a call, and completes prompts too: once each, and its answer replays."""

    def ask() -> Any:
        answer = done(CALLS[shape](ScriptedLLM(world)))
        last = answer[-1] if isinstance(answer, list) else answer
        return last.text if "complete" in shape else last.message.content

    path, derived, other = tmp_path / "call.yaml", tmp_path / "derived.yaml", World()
    with use_cassette(path, mode="all"):
        ask()
    before = len(world.reached)
    with use_cassette(path, candidate=kind(other), to=derived) as session:
        found = ask()
    assert (len(other.reached), len(world.reached)) == (1, before)
    assert str(session.report) == "0 replayed, 1 recorded"
    with use_cassette(derived):
        assert ask() == found


def test_a_call_in_the_middle_of_a_stream(recorded: Path, world: World, tmp_path: Path) -> None:
    """An LLM that reads only whole arguments, as Anthropic's does, reads each chunk of a candidate's call."""

    class InPieces(CallingLLM):
        """Streams the arguments of its call piece by piece, as text, and reads the half that it has sent."""

        async def astream_chat(self, messages: Sequence[ChatMessage], tools: Any = None, **kwargs: Any) -> Any:
            """Stream a call."""
            texts = ['{"city":', '{"city": "Paris"}']
            blocks = [ToolCallBlock(tool_call_id="t1", tool_name="weather", tool_kwargs=text) for text in texts]
            return as_async(ChatResponse(message=ChatMessage(role="assistant", blocks=[block])) for block in blocks)

        def get_tool_calls_from_response(self, response: ChatResponse, *_: Any, **__: Any) -> list[ToolSelection]:
            """Read a call, or the half of one."""
            (block,) = response.message.blocks
            return [ToolSelection(tool_id="t1", tool_name="weather", tool_kwargs=parse_partial_json(block.tool_kwargs))]  # type: ignore[union-attr, arg-type]

    async def ask() -> list[Any]:
        offered = [{"type": "function", "function": {"name": "weather", "description": "", "parameters": {}}}]
        chunks = await ScriptedLLM(world).astream_chat([ChatMessage(role="user", content="go")], tools=offered)
        calls = [block.tool_kwargs async for chunk in chunks for block in chunk.message.blocks]
        return [json.loads(call) if isinstance(call, str) else call for call in calls]

    with use_cassette(recorded, candidate=InPieces(world), to=tmp_path / "derived.yaml", on_unused="ignore"):
        assert asyncio.run(ask()) == [{"city": None}, {"city": "Paris"}]


def test_bad_candidates(recorded: Path, world: World) -> None:
    """What cannot be tried is refused before anything runs."""
    silent = ScriptedLLM(world, function_calling=False)
    for candidate, said in ((silent, "it calls no tools"), ("nobody:x", "install llama-index-llms-nobody"), ("x", "x")):
        with pytest.raises(ConfigurationError, match=said), use_cassette(recorded, candidate=candidate):
            pytest.fail("it was opened")
