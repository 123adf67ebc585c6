"""The links behind an answer of a LlamaIndex agent, wherever its session was opened when it was recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from llama_index.core.agent.workflow import FunctionAgent

from agenttape_core import use_cassette
from agenttape_core.experiments import why

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
    found = why(run, "c")
    assert [(edge.source, edge.target, edge.way) for edge in found.links] == [
        (1, 3, "data"),
        (2, 3, "data"),
        (1, 2, "data"),
    ]
    assert found.flow.into(2)[0].at == ("arguments.place",)
    assert [edge.source for edge in why(run, "c", text="at eight").links] == [2]
    assert world.trespasses == []
