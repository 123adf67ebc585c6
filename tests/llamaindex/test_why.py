"""The links behind an answer of a LlamaIndex agent, wherever its session was opened when it was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage

from agenttape_core import use_cassette
from agenttape_core.tools.why import why

from ..kit.world import World
from .scripted import ScriptedLLM
from .test_what_if import booking, pytestmark  # noqa: F401 - the marks of this module, too


@pytest.mark.parametrize(("streaming", "inside"), [(True, True), (False, False)], ids=["in the loop", "around it"])
def test_the_links_of_an_agent(project: Path, streaming: bool, inside: bool) -> None:
    """The place comes from the model, and the hour from the tool."""
    world = World()

    def search(place: str) -> str:
        """Find a place."""
        world.reach("search")
        return f"{place} at eight"

    async def run() -> str:
        agent = FunctionAgent(llm=ScriptedLLM(world, booking), tools=[search], streaming=streaming)
        return str(await agent.run("Book a table."))

    if inside:
        asyncio.run(use_cassette("c", mode="all")(run)())
    else:
        with use_cassette("c", mode="all"):
            asyncio.run(run())
    world.gone = True
    found = why("c", run)
    assert [(edge.source, edge.target, edge.way) for edge in found.links] == [
        (1, 3, "data"),
        (2, 3, "data"),
        (1, 2, "data"),
    ]
    assert found.flow.into(2)[0].at == ("arguments.place",)
    assert [edge.source for edge in why("c", run, text="at eight").links] == [2]
    assert world.trespasses == []


@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "astream_chat"])
def test_the_message_that_turns_an_answer(project: Path, way: str) -> None:
    """The model is asked again with messages left out, and nothing else is executed."""

    def reply(messages: Sequence[ChatMessage], _: Sequence[str]) -> str:
        return "Eight." if any("at eight" in str(message.content) for message in messages) else "No idea."

    llm = ScriptedLLM(World(), reply)
    words = ["Be kind.", "When?", "It is at eight.", "Well?"]
    asked = [ChatMessage(role="user", content=text) for text in words]

    def program() -> str:
        return str(llm.chat(asked)) if way == "chat" else str([*llm.stream_chat(asked)][-1])

    async def aprogram() -> str:
        if way == "achat":
            return str(await llm.achat(asked))
        return str([chunk async for chunk in await llm.astream_chat(asked)][-1])

    with use_cassette("c", mode="all"):
        asyncio.run(aprogram()) if way.startswith("a") else program()
    found = why("c", aprogram if way.startswith("a") else program, text="Eight", samples=1, max_usd=1.0).sampled
    assert found is not None
    assert [(one.at, one.text, one.without.said) for one in found.turned] == [("messages[2]", "It is at eight.", 0)]
