"""Another LLM is tried on a recorded run, wherever the model comes from: candidate=, with the tools held still."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, PromptTemplate, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms import LLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.program import LLMTextCompletionProgram
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from pydantic import BaseModel

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import MODEL_KINDS

from ..kit.world import World
from .acceptance import FRAMEWORK_WARNINGS
from .fakes import CALLS, CallingLLM, FakeEmbedding, as_async, done
from .scripted import Reply, ScriptedLLM

pytestmark = FRAMEWORK_WARNINGS


# -- Another LLM is tried on a recorded run: `candidate=`, with the tools held still -----------------------------------


def asking_for(*cities: str) -> Callable[[Sequence[ChatMessage], Sequence[str]], Reply]:
    """Return a script that requests the weather of each city in turn, then repeats the last tool's answer."""

    def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
        told = [message for message in messages if message.role == "tool"]
        if len(told) < len(cities) and tools:
            return [("weather", {"city": cities[len(told)]})]
        return f"told {told[-1].content if told else 'nothing'}"

    return script


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
}
"""The calls of a candidate, and how many of them leave the recorded world."""


@pytest.mark.parametrize("kind", KINDS)
def test_tools_are_held_still(kind: str, world: World, tmp_path: Path) -> None:
    """What was recorded is replayed, the rest is refused and kept, and the derived cassette has the same end."""

    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('tool')}"

    def replying(*calls: tuple[str, str]) -> ScriptedLLM:
        def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
            told = [message.content for message in messages if message.role == "tool"]
            return [(calls[len(told)][0], {"city": calls[len(told)][1]})] if len(told) < len(calls) else f"read {told}"

        return ScriptedLLM(world, script)

    async def ask() -> str:
        agent = FunctionAgent(tools=[FunctionTool.from_defaults(weather)], llm=replying(("weather", "Paris")))
        return str(await agent.run("?"))

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


@pytest.mark.sweep
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


def test_a_prompt_reaches_another_client(world: World, tmp_path: Path) -> None:
    """A candidate of another class gets the prompt that the program's own LLM was to complete."""

    class Hearing(ScriptedLLM):
        """A candidate of another client."""

    path, heard = tmp_path / "prompt.yaml", Hearing(world, lambda messages, _: f"heard {messages[-1].content}")
    with use_cassette(path, mode="all"):
        CallingLLM(world).complete("Hm?")
    with use_cassette(path, candidate=heard):
        assert CallingLLM(world).complete("Hm?").text == "heard Hm? (2)"


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


# -- A candidate is tried on programs as they are: wherever the model comes from, and however it is asked --------------


class Forecast(BaseModel):
    """A forecast."""

    sky: str


def script(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Call the first tool once, in whatever way the program wants it, then answer."""
    last, every = messages[-1].content or "", " ".join(message.content or "" for message in messages)
    told = [message for message in messages if message.role == "tool"]
    if "Forecast" in tools:
        return [("Forecast", {"sky": "blue"})]
    if tools and not told:
        name = tools[0]
        return [(name, {"to_agent": "writer", "reason": "words"} if name == "handoff" else {"city": "Paris"})]
    if '"sky"' in every:
        return '{"sky": "blue"}'
    if "Action Input" in every and "sunny in" not in every:
        return 'Thought: I look.\nAction: weather\nAction Input: {"city": "Paris"}\n'
    if "Action Input" in every:
        return "Thought: I can answer without using any more tools.\nAnswer: sunny\n"
    return f"told {last[-20:]}"


class Own(ScriptedLLM):
    """The model of the programs."""


class Foreign(ScriptedLLM):
    """A candidate of another client."""


home = World()
"""The world of the programs' own model and tools: no candidate reaches it."""
QUESTION = "weather in Paris?"


def own() -> Own:
    return Own(home, script)


def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city} {home.reach('weather')}"


def tools() -> list[Any]:
    return [FunctionTool.from_defaults(weather)]


def react() -> Any:
    async def ask() -> str:
        return str(await ReActAgent(tools=tools(), llm=own(), streaming=False).run(QUESTION))

    return asyncio.run(ask())


def several_agents() -> Any:
    async def ask() -> str:
        planner = FunctionAgent(
            name="planner", description="plans", tools=[], llm=own(), can_handoff_to=["writer"], system_prompt="Plan."
        )
        writer = FunctionAgent(name="writer", description="writes", tools=tools(), llm=own(), system_prompt="Write.")
        flow = AgentWorkflow(agents=[planner, writer], root_agent="planner")
        return str(await flow.run(user_msg=QUESTION))

    return asyncio.run(ask())


def structured() -> Any:
    prompt = PromptTemplate("Forecast {city}")
    program = LLMTextCompletionProgram.from_defaults(
        output_cls=Forecast, prompt_template_str="Forecast {city}", llm=own()
    )
    whole: Any = own().structured_predict(Forecast, prompt, city="Rome")
    inner: Any = own().as_structured_llm(Forecast).chat([ChatMessage(content="Rome")]).raw
    return whole, inner, program(city="Rome")


def chat_engine() -> Any:
    index = VectorStoreIndex.from_documents([Document(text="Paris is sunny.")], embed_model=FakeEmbedding(home))
    engine = CondensePlusContextChatEngine.from_defaults(
        index.as_retriever(), llm=own(), memory=ChatMemoryBuffer.from_defaults(llm=own()), skip_condense=True
    )
    return [str(engine.chat(QUESTION)), "".join(engine.stream_chat("Why?").response_gen)]


class Asked(Event):
    """A question of a workflow."""

    text: str


class Answered(Event):
    """Its answer."""

    text: str


class Flow(Workflow):
    """Asks in steps side by side."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Asked | None:
        """Ask twice."""
        for text in ("a?", "b?"):
            ctx.send_event(Asked(text=text))
        return None

    @step(num_workers=2)
    async def ask(self, ev: Asked) -> Answered:
        """Ask a model that the step makes."""
        return Answered(text=str((await own().achat([ChatMessage(content=ev.text)])).message.content))

    @step
    async def end(self, ctx: Context, ev: Answered) -> StopEvent | None:
        """Join the answers."""
        found = ctx.collect_events(ev, [Answered] * 2)
        return StopEvent(result=sorted(each.text for each in found)) if found else None


def workflow() -> Any:
    async def run() -> Any:
        return await Flow(timeout=30).run()

    return asyncio.run(run())


PROGRAMS: list[Callable[[], Any]] = [
    several_agents, react, chat_engine, structured, workflow,
]  # fmt: skip
CANDIDATES: dict[str, Callable[[World], LLM]] = {
    "kin": lambda world: Own(world, script, model="new"),
    "foreign": lambda world: Foreign(world, script, model="new"),
}


TRIED = list(zip(PROGRAMS, cycle(CANDIDATES), strict=False))
"""Each program with one of the candidates in turn."""


@pytest.mark.parametrize(("program", "kind"), TRIED, ids=lambda part: getattr(part, "__name__", part))
def test_a_program_is_tried(program: Callable[[], Any], kind: str, tmp_path: Path) -> None:
    """Only the candidate is asked, no tool runs, and the derived cassette replays to the same end."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        program()
    there, reached = World(), len(home.reached)
    with use_cassette(tmp_path / "run.yaml", candidate=CANDIDATES[kind](there), to=tmp_path / "derived.yaml"):
        found = program()
    assert home.reached[reached:] == []
    assert there.reached
    calls = [one for one in open_cassette(tmp_path / "derived.yaml").interactions() if one.kind in MODEL_KINDS]
    assert {str(call.metadata["candidate"]).partition(":")[2] for call in calls} == {"new"}
    with use_cassette(tmp_path / "derived.yaml"):
        assert program() == found
    assert home.reached[reached:] == []
