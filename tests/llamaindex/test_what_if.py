"""Recorded calls of LlamaIndex's agents are changed in LlamaIndex's own terms."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse

from agenttape_core import Change, awhat_if, cut, edits, raises, returns, use_cassette, what_if
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import afaults

from ..kit.world import World
from .scripted import Reply, ScriptedLLM

pytestmark = [  # LlamaIndex's own code
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]
WORLD = World()


@pytest.fixture(autouse=True)
def _nothing_is_done() -> Iterator[None]:
    yield
    assert WORLD.trespasses == []


def booking(messages: Sequence[ChatMessage], _: Sequence[str]) -> Reply:
    """Search, and say what was found."""
    results = [message.content for message in messages if message.role == "tool"]
    return f"Booked {results[-1]}" if results else [("search", {"place": "Luigi"})]


def search(place: str) -> str:
    """Find a place."""
    return f"{place} at eight, {WORLD.reach('search')}"


async def agent(*, streaming: bool = False) -> str:
    found = FunctionAgent(llm=ScriptedLLM(WORLD, booking), tools=[search], streaming=streaming)
    return str(await found.run("Book a table."))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A run that streams and one that does not, of a model that is gone then."""
    folder = tmp_path_factory.mktemp("what_if")
    paths = {streaming: folder / f"streaming-{streaming}.yaml" for streaming in (False, True)}
    WORLD.gone = False
    for streaming, path in paths.items():
        asyncio.run(use_cassette(path, mode="all")(agent)(streaming=streaming))
    WORLD.gone = True
    return paths


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({3: returns("Done.")}, "Done."),
        ({3: returns(ChatMessage(role="assistant", content="Sure."))}, "Sure."),
        ({3: edits(lambda response: response.message.content.upper())}, "BOOKED LUIGI AT EIGHT, 2 (3)"),
        ({1: returns(ChatResponse(message=ChatMessage(role="assistant", content="No.")))}, "No."),
    ],
)
async def test_answers_of_models(recorded: dict[bool, Path], change: dict[int, Change], expected: str) -> None:
    """A text, a message or a response is the answer of a model, also of one that streamed."""
    assert (await awhat_if(recorded[False], agent, change)).result == expected
    streamed = await awhat_if(recorded[True], lambda: agent(streaming=True), change)
    again = expected.replace(", 2 (3)", ", 5 (6)")  # the numbers of the calls that were recorded later
    assert (streamed.result, streamed.new) == (again, ())


async def test_a_tool_that_fails(recorded: dict[bool, Path]) -> None:
    """The agent tells its model of the error of a tool, so the model is asked something else; nothing is executed."""
    found = await awhat_if(recorded[False], agent, {"search": raises(TimeoutError("slow"))}, on_new_call="address")
    assert ([one.number for one in found.changed], found.first_divergence and found.first_divergence.number) == ([3], 3)
    (content,) = [new for path, _, new in found.changed[0].differences if "slow" in new][:1]
    assert "slow" in content


async def test_an_error_of_a_model(recorded: dict[bool, Path]) -> None:
    """An error of a model ends the agent, at once or in the middle of its stream."""
    failed = await awhat_if(recorded[False], agent, {3: raises(ConnectionError("429"))})
    assert "429" in str(failed.raised)
    broken = await awhat_if(recorded[True], lambda: agent(streaming=True), {3: cut(after=1)})
    assert "the stream was cut after 1 chunk" in str(broken.raised)


def test_text_models(tmp_path: Path) -> None:
    """A text is the answer of a model that completes a prompt."""
    WORLD.gone, path = False, tmp_path / "c.yaml"
    llm = ScriptedLLM(WORLD)
    with use_cassette(path, mode="all"):
        llm.complete("hi")
    WORLD.gone = True
    assert what_if(path, lambda: llm.complete("hi").text, {1: returns("ho")}).result == "ho"
    with pytest.raises(ConfigurationError, match="expected a text or a response for ScriptedLLM, found 7"):
        what_if(path, lambda: llm.complete("hi"), {1: returns(7)})


@pytest.mark.parametrize("streaming", [False, True])
async def test_faults(recorded: dict[bool, Path], streaming: bool) -> None:
    """Each call of a FunctionAgent fails in each way; it has no retry, and tells its model of a failed tool."""
    found = await afaults(lambda: agent(streaming=streaming), recorded[streaming])
    marks: dict[str, list[str]] = {}
    for cell in found.cells:
        marks.setdefault(cell.fault, []).append(cell.verdict)
    assert marks.pop("cut_stream", ["raised"]) == ["raised"]
    outside = ["raised", "new_call", "raised"]
    assert marks == {
        **dict.fromkeys(("rate_limit", "timeout", "connection_reset"), outside),
        "cut_tool_call": ["raised"],
        "malformed_tool_call": ["new_call"],
        "empty": ["silent", "new_call", "silent"],
        "tool_error": ["new_call"],
        "inject": ["new_call"],
        "note": ["new_call"],
    }
