"""Threads of workflows, and workflows, agents and engines, begun again from their recordings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from workflows import Context, Workflow, step
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent
from workflows.plugins.basic import basic_runtime

from agenttape_core import open_cassette, replay_source, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_llamaindex import (
    TapeEventHandler,
    TapeRuntime,
    areplay_thread,
    export_thread,
    replay_thread,
    steps_of,
)

from ..kit.world import gone
from .scripted import ScriptedEmbedding, ScriptedLLM, World

pytestmark = [  # of LlamaIndex's own code
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


# -- Threads of workflows: one run in a file of its own, and run again from it with all that came from outside ---------


class Named(Event):
    """A name was given."""

    name: str


class Greeter(Workflow):
    """Asks for a name, and lets a model greet it."""

    def __init__(self, world: World, prompt: str = "Greet", **options: Any) -> None:
        super().__init__(**options)
        self.llm = ScriptedLLM(world, lambda messages, _: f"Hi: {messages[-1].content}")
        self.prompt = prompt

    @step
    async def ask(self, ctx: Context, event: StartEvent) -> InputRequiredEvent:
        await ctx.store.set("greeting", event.greeting)
        return InputRequiredEvent(prefix="Your name?")

    @step
    async def hear(self, event: HumanResponseEvent) -> Named:
        return Named(name=event.response)

    @step
    async def greet(self, ctx: Context, event: Named) -> StopEvent:
        answer = await self.llm.acomplete(f"{self.prompt} {event.name}: {await ctx.store.get('greeting')}")
        return StopEvent(result=answer.text)


async def greeted(workflow: Greeter, greeting: str, name: str) -> Any:
    """Run it, and answer its question."""
    handler = workflow.run(greeting=greeting)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response=name))
    return await handler


@pytest.fixture(params=["observed", "recorded"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A cassette of two runs, and what the second returned."""
    path = tmp_path / "two.jsonl"

    async def both(workflow: Greeter) -> str:
        await greeted(workflow, "Hello", "Ada")
        return str(await greeted(workflow, "Welcome", "Grace"))

    if request.param == "observed":
        with TapeEventHandler(path):
            return path, asyncio.run(both(Greeter(World())))
    with use_cassette(path, mode="all"):
        return path, asyncio.run(both(Greeter(World(), runtime=TapeRuntime(basic_runtime))))


def test_an_exported_thread_runs_again(thread: tuple[Path, str], tmp_path: Path) -> None:
    """The file holds that run only; the workflow runs, is asked and answered as it was, and its calls are replayed."""
    path, live = thread
    exported = export_thread(path, tmp_path / "one.yaml")
    assert {one.run for one in steps_of(exported)} == {steps_of(path, run=0)[0].run}, "it is the first there"
    replayed = replay_thread(exported, Greeter(gone()))
    assert (replayed.result, replayed.values) == (live, {"greeting": "Welcome"})
    assert str(replayed.report) == "1 replayed, 0 recorded"


def test_each_thread_of_a_cassette(thread: tuple[Path, str]) -> None:
    """A run is chosen by its number, without an export, and in an event loop."""
    path, live = thread

    async def both() -> list[Any]:
        return [(await areplay_thread(path, Greeter(gone()), run=run)).result for run in (0, 1)]

    first, second = asyncio.run(both())
    assert (first != live, second) == (True, live)


def test_a_changed_workflow_misses(thread: tuple[Path, str]) -> None:
    """A changed prompt is a miss, as in every replay."""
    with pytest.raises(CassetteMissError):
        replay_thread(thread[0], Greeter(gone(), "Praise"))


def test_a_thread_that_waits_ends_where_it_waits(tmp_path: Path) -> None:
    """A run that was left while it waited for an answer is replayed up to there."""

    async def asked() -> None:
        handler = Greeter(World()).run(greeting="Hello")
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                break
        await handler.cancel_run()

    with TapeEventHandler(tmp_path / "left.jsonl"):
        asyncio.run(asked())
    replayed = replay_thread(tmp_path / "left.jsonl", Greeter(gone()), timeout=20)
    assert (replayed.result, replayed.values) == (None, {"greeting": "Hello"})


async def test_wrong_uses_say_what_to_do(tmp_path: Path) -> None:
    """A sync replay in an event loop, a file that is there, a cassette without ticks."""
    with pytest.raises(ConfigurationError, match="await areplay_thread"):
        replay_thread(tmp_path / "no.yaml", Greeter(World()))
    (tmp_path / "there.yaml").write_text("")
    with pytest.raises(ConfigurationError, match="exists already"):
        export_thread(tmp_path / "no.yaml", tmp_path / "there.yaml")
    async with use_cassette(tmp_path / "plain.yaml", mode="all"):
        await greeted(Greeter(World()), "Hello", "Ada")
    with pytest.raises(ConfigurationError, match="TapeRuntime"):
        await areplay_thread(tmp_path / "plain.yaml", Greeter(World()))


# -- Workflows, agents and engines begun again from their recordings ---------------------------------------------------


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
