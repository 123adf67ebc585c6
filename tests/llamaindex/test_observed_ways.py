"""Ways of calling LlamaIndex: recorded by a session or observed by a handler, a replay gives what the run gave.

The page about LlamaIndex has the table of them.
"""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
import asyncio
import inspect
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
from pydantic import BaseModel
from tests.kit.world import gone
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS
from .observed import SAID, interactions
from .programs import PROGRAMS
from .scripted import Reply, ScriptedEmbedding, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS

WAYS: dict[str, Callable[[World], Any]] = {}


def way(name: str) -> Callable[[Callable[[World], Any]], Callable[[World], Any]]:
    """Keep a way of calling under its name in the table."""

    def keep(run: Callable[[World], Any]) -> Callable[[World], Any]:
        WAYS[name] = run
        return run

    return keep


def calling(*calls: tuple[str, dict[str, Any]]) -> Callable[[Any, Any], Reply]:
    """Return a script that calls tools once, all at the same time, and then answers."""
    return lambda messages, _: "done" if any(message.role == "tool" for message in messages) else list(calls)


def look_of(world: World, seed: int = 0) -> FunctionTool:
    """Return a tool that takes its time."""
    waits = random.Random(seed)

    async def look(number: int) -> str:
        """Look."""
        seen = world.reach("look")
        await asyncio.sleep(waits.choice((0, 0, 0.001, 0.003)))
        return f"{number}: {seen}"

    return FunctionTool.from_defaults(async_fn=look)


@way("8 tools at once")
async def parallel(world: World) -> Any:
    """Eight tools at once."""
    llm = ScriptedLLM(world, calling(*(("look", {"number": number}) for number in range(8))))
    handler = FunctionAgent(tools=[look_of(world)], llm=llm).run("Look around")
    results = [str(e.tool_output) async for e in handler.stream_events() if isinstance(e, ToolCallResult)]
    return results, str(await handler)


@way("a tool class of your own")
async def own_tool(world: World) -> Any:
    """A tool class of your own."""

    class Own(AsyncBaseTool):
        @property
        def metadata(self) -> ToolMetadata:
            return ToolMetadata(name="own", description="Looks", fn_schema=None)

        def call(self, q: str) -> ToolOutput:
            seen = f"{q}: {world.reach('own')}"
            return ToolOutput(content=seen, tool_name="own", raw_input={"q": q}, raw_output=seen)

        async def acall(self, q: str) -> ToolOutput:
            return self.call(q)

    own = Own()
    agent = FunctionAgent(tools=[own], llm=ScriptedLLM(world, calling(("own", {"q": "Oslo"}))))
    return str(await agent.run("Look")), own("Rome").content, own.call(q="Bern").content


@way("a hand-off, with tools at once")
async def hand_off(world: World) -> Any:
    """A hand-off, with tools at once."""

    def script(messages: Any, tools: Any) -> Reply:
        if "handoff" in tools and messages[-1].role != "tool":
            return [("handoff", {"to_agent": "writer", "reason": "rain"})]
        looked = any("look" in str(message.additional_kwargs) or ": " in str(message.content) for message in messages)
        return "done" if looked or "look" not in tools else [("look", {"number": n}) for n in range(3)]

    llm = ScriptedLLM(world, script)
    planner = FunctionAgent(name="planner", description="Plans", llm=llm, can_handoff_to=["writer"])
    writer = FunctionAgent(name="writer", description="Writes", llm=llm, tools=[look_of(world)])
    handler = AgentWorkflow(agents=[planner, writer], root_agent="planner").run("Rain?")
    names = [getattr(event, "current_agent_name", "") async for event in handler.stream_events()]
    return names, str(await handler)


@way("agents at once")
async def agents_at_once(world: World) -> Any:
    """Agents at once."""

    async def ask(number: int) -> str:
        llm = ScriptedLLM(world, calling(("look", {"number": number})))
        return str(await FunctionAgent(tools=[look_of(world, number)], llm=llm).run(f"Question {number}"))

    return await asyncio.gather(*map(ask, range(3)))


class Sentence(BaseModel):
    """A sentence."""

    text: str


@way("structured output")
async def structured(world: World) -> Any:
    """Structured output."""
    llm = ScriptedLLM(world, lambda _, tools: [("Sentence", {"text": "It rains"})] if tools else "{}")
    made = llm.as_structured_llm(Sentence)
    return (await made.achat(SAID)).raw, made.complete("Rain?").raw, [chunk.raw for chunk in made.stream_chat(SAID)]


class Part(Event):
    """A part of the work."""

    number: int


class Done(Event):
    """A part that is done."""

    text: str


class Inner(Workflow):
    """A workflow within another one."""

    @step
    async def answer(self, event: StartEvent) -> StopEvent:
        return StopEvent(result=(await event.llm.acomplete(f"part {event.number}")).text)


class FanOut(Workflow):
    """Works on parts at once, each by a workflow of its own."""

    llm: Any = None

    @step
    async def split(self, ctx: Context, event: StartEvent) -> Part | None:
        for number in range(4):
            ctx.send_event(Part(number=number))
        return None

    @step(num_workers=3)
    async def work(self, event: Part) -> Done:
        return Done(text=await Inner().run(llm=self.llm, number=event.number))

    @step
    async def join(self, ctx: Context, event: Done) -> StopEvent | None:
        found = ctx.collect_events(event, [Done] * 4)
        return StopEvent(result=[one.text for one in found]) if found else None


@way("a fan-out of workflows")
async def fan_out(world: World) -> Any:
    """A fan-out of workflows."""
    flow, waits = FanOut(timeout=30), random.Random(1)

    async def wait() -> None:
        await asyncio.sleep(waits.choice((0, 0.001, 0.003)))

    flow.llm = ScriptedLLM(world, wait=wait)
    return await flow.run()


@way("a stream that is never read")
async def never_read(world: World) -> Any:
    """A stream that is never read."""
    llm = ScriptedLLM(world)
    llm.stream_chat(SAID)
    llm.stream_complete("Rain?")
    await llm.astream_chat(SAID)
    return llm.complete("Rain?").text


@way("a stream that is read in part")
async def read_in_part(world: World) -> Any:
    """A stream that is read in part."""
    llm, found = ScriptedLLM(world), []
    stream = llm.stream_chat(SAID)
    found.append(next(stream).delta)
    stream.close()
    async for chunk in (again := await llm.astream_chat(SAID)):
        found.append(chunk.delta)
        break
    await again.aclose()
    return found, llm.complete("Rain?").text


@way("an answer of an engine that is read in part")
async def engine_in_part(world: World) -> Any:
    """An answer of an engine that is read in part."""
    index = VectorStoreIndex.from_documents([Document(text="It rains", id_="a")], embed_model=ScriptedEmbedding(world))
    engine = index.as_query_engine(llm=ScriptedLLM(world), streaming=True)
    response: Any = engine.query("Rain?")
    first = next(response.response_gen)
    response.response_gen.close()
    said = first, str(engine.query("Rain?"))
    response = await engine.aquery("And now?")  # its stream is left now, and the framework closes it some rounds later
    later = await anext(response.response_gen)
    await response.response_gen.aclose()
    return *said, later


@way("a chat engine")
async def chat_engine(world: World) -> Any:
    """A chat engine."""
    engine = SimpleChatEngine.from_defaults(llm=ScriptedLLM(world))
    said = [str(engine.chat("Rain?")), "".join(engine.stream_chat("And now?").response_gen)]
    streamed = await engine.astream_chat("Later?")
    said.append("".join([token async for token in streamed.async_response_gen()]))
    return said, [str(message) for message in engine.chat_history]


@way("a time limit, and another model")
async def time_limit(world: World) -> Any:
    """A time limit, and another model."""

    async def for_ever() -> None:
        await asyncio.Event().wait()

    try:
        return await asyncio.wait_for(ScriptedLLM(world, wait=for_ever).acomplete("Rain?"), 0.01)
    except TimeoutError:
        return (await ScriptedLLM(world, model="scripted-2").acomplete("Rain?")).text


@way("a pool of threads")
async def threads(world: World) -> Any:
    """A pool of threads."""
    llm = ScriptedLLM(world)
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda number: llm.complete(f"question {number}").text, range(4)))


class Executing(ScriptedLLM):
    """Chats asynchronously by chatting in a thread, which doesn't get the context."""

    @llm_chat_callback()
    async def achat(self, messages: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, self.chat, messages)


class ExecutingTwice(ScriptedLLM):
    """Chats asynchronously by chatting in a thread that a thread of another pool waits for."""

    @llm_chat_callback()
    async def achat(self, messages: Any, **kwargs: Any) -> Any:
        with ThreadPoolExecutor() as pool:
            work = pool.submit
            return await asyncio.get_running_loop().run_in_executor(None, lambda: work(self.chat, messages).result())


class SpanOfOurs(ScriptedLLM):
    """Chats as `ExecutingTwice` does, with its own span between the pools."""

    @get_dispatcher("ours").span
    def ours(self, messages: Any) -> Any:
        with ThreadPoolExecutor() as pool:
            return pool.submit(self.chat, messages).result()

    @llm_chat_callback()
    async def achat(self, messages: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, self.ours, messages)


@way("an LLM that delegates in a thread")
async def in_a_thread(world: World) -> Any:
    """LLMs whose async method calls the other one in a thread."""
    return [await llm(world).achat(SAID) for llm in (Executing, ExecutingTwice, SpanOfOurs)]


@pytest.mark.sweep
@pytest.mark.parametrize("how", ["observed", "recorded"])
@pytest.mark.parametrize("name", WAYS)
async def test_every_way(name: str, how: str, tmp_path: Path) -> None:
    """The replay has the values of the run, in its order, and reaches nothing."""

    def _recording(how: str, path: Path) -> AbstractContextManager[Any]:
        return TapeEventHandler(path) if how == "observed" else use_cassette(path, mode="all")

    async def once(world: World) -> Any:
        value = WAYS[name](world)
        return repr(await value if inspect.isawaitable(value) else value)

    with _recording(how, tmp_path / "seen.jsonl") as recording:
        seen = await once(World())
    assert how != "observed" or recording.errors == []
    world = gone()
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert await once(world) == seen
    assert world.trespasses == []
    assert session.report.unused == ()


def test_the_page_has_them_all() -> None:
    """Each way is a row of the table on the page, and each other row is a program of the package's tests."""
    page = (Path(__file__).parents[2] / "docs" / "identical.md").read_text(encoding="utf-8")
    table = page.partition("## Programs, recorded and observed")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if row in WAYS] == list(WAYS)
    assert {*rows} <= {*WAYS, *(name.replace("_", " ") for name in PROGRAMS)}


async def _tell(ctx: Context) -> str:
    """Tell the readers of the stream."""

    class Told(Event):
        text: str

    ctx.write_event_to_stream(Told(text="rain"))
    return "told"


async def test_what_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    """An event whose class is local to a function cannot be told again: the call is lossy, and says why."""
    llm = ScriptedLLM(World(), calling(("_tell", {})))
    with TapeEventHandler(tmp_path / "seen.yaml"):
        await FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=_tell)], llm=llm).run("Tell")
    (told,) = (found for found in interactions(tmp_path / "seen.yaml") if found.kind == "tool")
    assert told.fidelity == "lossy"
    assert "define it at the top level of a module" in told.fidelity_note
    assert "return plain data" not in told.fidelity_note
    with pytest.raises(CassetteMissError, match="lossy"), use_cassette(tmp_path / "seen.yaml"):
        await FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=_tell)], llm=llm).run("Tell")
