"""Workflows, agents and engines begun again from their recordings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent

from agenttape_core import open_cassette, replay_source, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_llamaindex import TapeEventHandler

from ..kit.world import gone
from .scripted import ScriptedEmbedding, ScriptedLLM, World
from .test_threads import Greeter, greeted

pytestmark = [  # of LlamaIndex's own code
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


class Asked(StartEvent):
    """A question, and how often it is asked."""

    question: str
    times: int = 1


class Asking(Workflow):
    """Asks a model."""

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(**options)
        self.llm = ScriptedLLM(world)

    @step
    async def ask(self, event: Asked) -> StopEvent:
        answers = [(await self.llm.acomplete(event.question)).text for _ in range(event.times)]
        return StopEvent(result=" ".join(answers))


def recorded(path: Path, run: Any, *, observed: bool) -> Any:
    """Record a run, by a session or by a handler."""
    with TapeEventHandler(path) if observed else use_cassette(path, mode="all"):
        return run()


@pytest.mark.parametrize("observed", [False, True], ids=["recorded", "observed"])
def test_a_workflow_runs_again(tmp_path: Path, observed: bool) -> None:
    """A workflow runs again with the event that it began with, of a class of its own."""

    async def run() -> Any:
        return await Asking(World()).run(start_event=Asked(question="Why?", times=2))

    live = recorded(tmp_path / "run.yaml", lambda: asyncio.run(run()), observed=observed)
    again = replay_source(tmp_path / "run.yaml", Asking(gone()))
    assert (again.answer, again.report.recorded) == (live, ())


def test_an_agent_runs_again(tmp_path: Path) -> None:
    """An agent runs again from its message, and its tool is replayed."""

    def agent(world: World) -> FunctionAgent:
        """An agent with a tool."""

        def look_up(city: str) -> str:
            return f"{city} {world.reach('tool')}"

        def script(messages: Any, tools: Any) -> Any:
            return "sunny" if messages[-1].role.value == "tool" else [("look_up", {"city": "Paris"})]

        return FunctionAgent(tools=[look_up], llm=ScriptedLLM(world, script))

    async def run() -> Any:
        return await agent(World()).run(user_msg="Weather?")

    live = recorded(tmp_path / "run.yaml", lambda: asyncio.run(run()), observed=False)
    again = replay_source(tmp_path / "run.yaml", agent(gone()))
    assert (str(again.answer), again.report.recorded) == (str(live), ())


def test_a_thread_is_answered_as_it_was(tmp_path: Path) -> None:
    """A workflow that asks somebody is answered with what came from outside."""
    live = recorded(
        tmp_path / "run.yaml", lambda: asyncio.run(greeted(Greeter(World()), "Hello", "Ada")), observed=True
    )
    assert replay_source(tmp_path / "run.yaml", Greeter(gone())).answer == live


def test_answers_that_are_not_recorded(tmp_path: Path) -> None:
    """A run whose answers from outside no recording holds is refused: it would wait for them."""
    recorded(tmp_path / "run.yaml", lambda: asyncio.run(greeted(Greeter(World()), "Hello", "Ada")), observed=False)
    with pytest.raises(ConfigurationError, match="step hear was given an answer from outside"):
        replay_source(tmp_path / "run.yaml", Greeter(gone()))


@pytest.mark.parametrize("method", ["query", "aquery"])
@pytest.mark.parametrize("observed", [False, True], ids=["recorded", "observed"])
def test_a_query_engine_answers_again(tmp_path: Path, method: str, observed: bool) -> None:
    """A query engine is asked again by the method that was called; the building of its index began no run."""

    def engine(world: World) -> Any:
        index = VectorStoreIndex([], embed_model=ScriptedEmbedding(world))
        index.insert(Document(text="Paris is sunny.", id_="1"))
        return index.as_query_engine(llm=ScriptedLLM(world))

    built = engine(World())

    def run() -> Any:
        asked = getattr(built, method)("What is sunny?")

        async def finished() -> Any:
            return await asked

        return asyncio.run(finished()) if method == "aquery" else asked

    live = recorded(tmp_path / "run.yaml", run, observed=observed)
    header = open_cassette(tmp_path / "run.yaml").header
    assert (header.input, header.volatile.entry.method) == ({"str_or_query_bundle": "What is sunny?"}, method)
    again = replay_source(tmp_path / "run.yaml", built)
    assert (str(again.answer), again.report.recorded) == (str(live), ())


def test_an_input_that_does_not_fit(tmp_path: Path) -> None:
    """An input that is no event of the workflow is refused before anything runs."""

    async def run() -> Any:
        return await Asking(World()).run(start_event=Asked(question="Why?"))

    recorded(tmp_path / "run.yaml", lambda: asyncio.run(run()), observed=False)
    with pytest.raises(ConfigurationError, match="the recorded input does not fit Asked"):
        replay_source(tmp_path / "run.yaml", Asking(gone()), given={"city": "Paris"})
