"""Threads of graphs begun again from their recordings, without the tests that recorded them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agenttape_core import open_cassette, replay_source, use_cassette
from agenttape_core.errors import ConfigurationError

from ...kit.world import gone
from ..fakes import CONFIG, AsyncChat, World, calling
from .threads import approval


def test_an_agent_runs_again(tmp_path: Path) -> None:
    """An agent with a tool that can only be awaited runs again as it ran: its tools and models are replayed."""

    def assistant(world: World) -> Any:
        """An agent that looks something up."""

        @tool
        async def look_up(city: str) -> str:
            """Look up the weather."""
            return f"{city} {world.reach('tool')}"

        def reply(messages: Any, number: int) -> AIMessage:
            return AIMessage(f"done {number}") if number > 1 else calling(("look_up", {"city": "Paris"}), number=number)

        return create_agent(AsyncChat(world=world, reply=reply), [look_up])

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        live = asyncio.run(assistant(World()).ainvoke({"messages": [("user", "Weather?")]}))
    again = replay_source(tmp_path / "run.yaml", assistant(gone()))
    assert (again.answer, again.report.recorded) == (live, ())


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "awaited"])
def test_an_interrupted_thread_resumes(tmp_path: Path, is_async: bool) -> None:
    """All invocations of a thread run again, interrupts with the recorded answers; the header has the first input."""
    path = tmp_path / "run.yaml"

    async def both(graph: Any) -> Any:
        await graph.ainvoke({"log": ["start"]}, CONFIG)
        return await graph.ainvoke(Command(resume="yes"), CONFIG)

    graph = approval(World()).compile(checkpointer=InMemorySaver())
    with use_cassette(path, mode="all"):
        if is_async:
            live = asyncio.run(both(graph))
        else:
            graph.invoke({"log": ["start"]}, CONFIG)
            live = graph.invoke(Command(resume="yes"), CONFIG)
    assert open_cassette(path).header.input == {"log": ["start"]}
    again = replay_source(path, approval(gone()).compile())
    assert (again.answer, again.report.recorded) == (live, ())


def test_one_of_several_threads(tmp_path: Path) -> None:
    """Of several threads one is chosen; without a choice the error names them."""
    graph = approval(World()).compile(checkpointer=InMemorySaver())
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        for thread in ("a", "b"):
            graph.invoke({"log": [thread]}, {"configurable": {"thread_id": thread}})
    with pytest.raises(ConfigurationError, match="'a', 'b': choose one"):
        replay_source(tmp_path / "run.yaml", approval(gone()).compile())
    again = replay_source(tmp_path / "run.yaml", approval(gone()).compile(), thread_id="b", on_unused="ignore")
    assert again.answer["log"][0] == "b"
