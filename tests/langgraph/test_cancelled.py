"""Calls that a program cancels, and nodes and steps that run out of time, do so again in a replay."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import LLM, BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, TimeoutPolicy
from tests.kit.gate import Gate, hang
from tests.kit.times import took
from tests.kit.world import World

from agenttape_core import use_cassette

from .fakes import AsyncChat, PlainChat

# -- Calls of models and tools that a program cancels are cancelled again in a replay, in graphs and outside of --------

SOON = 0.5
"""Seconds; no test waits for so long, see `hang`."""


class Chat(BaseChatModel):
    """Answers at once, or never; where it never answers the first time, it answers the second time."""

    world: Any
    model: str = "quick"

    @property
    def _llm_type(self) -> str:
        return "chat"

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        times = self.world.reached.count(self.model)
        self.world.reach(self.model)
        if self.model == "slow" or (self.model == "second" and times == 0):
            await hang()
        return self._generate(messages)

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        said = AIMessage(f"{self.model}: {messages[-1].content}")
        return ChatResult(generations=[ChatGeneration(message=said)])


class Threaded(Chat):
    """Answers in a thread, too late."""

    gate: Any

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return await BaseChatModel._agenerate(self, *args, **kwargs)

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        self.world.reach("threaded")
        self.gate.hold()
        return super()._generate(messages)


class Streaming(Chat):
    """Streams one token in time, and one too late."""

    gate: Any

    def _stream(self, *args: Any, **kwargs: Any) -> Any:
        self.world.reach("streaming")
        yield ChatGenerationChunk(message=AIMessageChunk("one"))
        self.gate.hold()
        yield ChatGenerationChunk(message=AIMessageChunk("two"))


class Writer(LLM):
    """Completes too late."""

    model: str = "writer"
    world: Any
    gate: Any

    @property
    def _llm_type(self) -> str:
        return "writer"

    def _call(self, prompt: str, *args: Any, **kwargs: Any) -> str:
        self.world.reach("writer")
        self.gate.hold()
        return prompt


class Library(BaseRetriever):
    """Finds too late."""

    world: Any
    gate: Any

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
        self.world.reach("library")
        self.gate.hold()
        return [Document(query)]


class State(TypedDict):
    """A list that grows."""

    said: Annotated[list[str], operator.add]


def graph_of(*nodes: Callable[[State], Awaitable[Any]], **options: Any) -> Any:
    """Return a graph of nodes in a row."""
    graph = StateGraph(State)
    for before, node in zip((START, *(node.__name__ for node in nodes)), nodes, strict=False):
        graph.add_node(node.__name__, node, **options)  # type: ignore[call-overload]
        graph.add_edge(before, node.__name__)
    graph.add_edge(nodes[-1].__name__, END)
    return graph


async def said_by(world: World, model: str) -> list[str]:
    """Ask a model in a node."""
    return [(await Chat(world=world, model=model).ainvoke("Hi")).text]


async def given_up(world: World, ask: Callable[[Gate], Awaitable[Any]]) -> Any:
    """Give up a call whose thread is held by a gate, and goes on; ask another model."""
    gate = Gate()
    try:
        async with gate.timeout():
            return await ask(gate)
    except TimeoutError:
        return await said_by(world, "quick")
    finally:
        gate.open()


async def in_a_thread(world: World) -> Any:
    """Give up a model that has no coroutine of its own."""
    return await given_up(world, lambda gate: Threaded(world=world, gate=gate).ainvoke("Hi"))


async def tool_in_a_thread(world: World) -> Any:
    """Give up a tool that has no coroutine."""

    def searching(gate: Gate) -> Awaitable[Any]:
        @tool
        def search(query: str) -> str:
            """Search."""
            world.reach("search")
            gate.hold()
            return query

        return search.ainvoke({"query": "x"})

    return await given_up(world, searching)


async def retriever_in_a_thread(world: World) -> Any:
    """Give up a retriever that has no coroutine."""
    return await given_up(world, lambda gate: Library(world=world, gate=gate).ainvoke("x"))


async def text_in_a_thread(world: World) -> Any:
    """Give up a text model that has no coroutine."""
    return await given_up(world, lambda gate: Writer(world=world, gate=gate).ainvoke("x"))


async def stream_in_threads(world: World) -> Any:
    """Give up a stream that has no coroutine, each of whose chunks comes from a thread of its own."""
    read: list[str] = []

    async def reading(gate: Gate) -> None:
        async for chunk in Streaming(world=world, gate=gate).astream("x"):
            read.append(chunk.text)  # noqa: PERF401 - a comprehension that is cancelled leaves nothing

    return await given_up(world, reading), read


async def slow_tool(world: World) -> Any:
    """Wait for a tool, but not for long."""

    @tool
    async def search(query: str) -> str:
        """Search."""
        world.reach("search")
        await hang()
        return query

    async def look(_: State) -> Any:
        try:
            return {"said": [await asyncio.wait_for(search.ainvoke({"query": "x"}), SOON)]}
        except TimeoutError:
            return {"said": ["nothing found"]}

    return await graph_of(look).compile().ainvoke({"said": []})


async def cancelled_and_resumed(world: World) -> Any:
    """Cancel a run in its second node, and let the thread go on."""

    async def first(_: State) -> Any:
        return {"said": await said_by(world, "quick")}

    async def then(_: State) -> Any:
        return {"said": await said_by(world, "second")}

    graph, config = graph_of(first, then).compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON):
            await graph.ainvoke({"said": []}, config)
    left = (await graph.aget_state(config)).next
    return left, await graph.ainvoke(None, config), len([state async for state in graph.aget_state_history(config)])


@pytest.mark.parametrize(
    "program",
    [
        in_a_thread,
        tool_in_a_thread,
        retriever_in_a_thread,
        text_in_a_thread,
        stream_in_threads,
        slow_tool,
        cancelled_and_resumed,
    ],
    ids=lambda program: program.__name__,
)
def test_the_same_call_is_cancelled_again(program: Callable[[World], Awaitable[Any]], tmp_path: Path) -> None:
    """The same timeout fires, the same retry, fallback or winner answers, and nothing is executed."""

    def run(world: World, mode: str) -> tuple[Any, Any]:
        async def main() -> Any:
            with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
                return await program(world), session

        return asyncio.run(main())

    live, recording = run(World(), "once")
    outcomes = [item.outcome for item in recording.interactions]
    assert sum(one.status == "cancelled" or one.given_up is not None for one in outcomes) == 1
    world = World()
    world.gone = True
    replayed, replay = run(world, "none")
    assert replayed == live
    assert (world.trespasses, len(replay.report.replayed)) == ([], len(recording.interactions))


# -- Virtual time of graphs: the time limit of a step ------------------------------------------------------------------


class Answers(TypedDict, total=False):
    """An answer of each node."""

    quick: str
    slow: str


@pytest.mark.parametrize(
    ("limit", "result"), [(None, (20, ["quick", "slow"])), (30, (20, ["quick", "slow"])), (10, 10)]
)
def test_the_time_limit_of_a_step_is_virtual(tmp_path: Path, limit: float | None, result: Any) -> None:
    """Nodes take their recorded time, in threads too, and a step that takes too long is ended."""

    def graph(limit: float | None = None) -> Any:
        """Return a graph of two nodes that ask at once, one of them in a thread."""
        model, plain = AsyncChat(world=World()), PlainChat(world=World())

        async def slow(_: Answers) -> Answers:
            return {"slow": (await model.ainvoke("slow")).text}

        def quick(_: Answers) -> Answers:
            return {"quick": plain.invoke("quick").text}

        builder = StateGraph(Answers).add_node("a", slow).add_node("b", quick).add_edge(START, "a").add_edge(START, "b")
        compiled = builder.compile()
        compiled.step_timeout = limit
        return compiled

    def run(path: Path, *, limit: float | None = None, **options: Any) -> Any:
        """Run the graph, and return the seconds that it took in its loop, and what it answered."""

        async def runs() -> Any:
            loop = asyncio.get_running_loop()
            async with use_cassette(path, on_unused="ignore", **options):
                began = loop.time()
                try:
                    answers = await graph(limit).ainvoke({})
                except TimeoutError:
                    return round(loop.time() - began, 3)
                return round(loop.time() - began, 3), sorted(answers)

        return asyncio.run(runs())

    run(tmp_path / "run.yaml", mode="all")
    took(tmp_path / "run.yaml", {1: 20, 2: 20})
    assert run(tmp_path / "run.yaml", limit=limit, pace="virtual") == result


# -- Nodes that time out, and are tried again: LangGraph watches their time by the loop and by another clock -----------


LIMIT = 0.05


class SlowAtFirst(FakeListChatModel):
    """A model whose first answer takes too long."""

    asked: int = 0

    async def _agenerate(self, messages: list[BaseMessage], *args: object, **kwargs: object) -> ChatResult:
        self.asked += 1
        await asyncio.sleep(10 if self.asked == 1 else 0)
        return self._generate(messages)


class Heard(TypedDict, total=False):
    said: str


def asking_twice(model: SlowAtFirst, **limits: float) -> Any:
    """Return a graph of one node that asks a model, within time limits in seconds, and is tried twice."""

    async def ask(state: Heard) -> Heard:
        return {"said": (await model.ainvoke("hi")).text}

    retries = RetryPolicy(max_attempts=2, initial_interval=0, jitter=False, retry_on=NodeTimeoutError)
    builder = StateGraph(Heard).add_node("ask", ask, retry_policy=retries, timeout=TimeoutPolicy(**limits))
    return builder.add_edge(START, "ask").compile()


@pytest.mark.parametrize("kind", ["idle_timeout", "run_timeout"])
def test_a_node_times_out_again(kind: str, tmp_path: Path) -> None:
    """A replay cancels the call that was cancelled, and tries again, however often the watchdog slept in between."""

    def run() -> Any:
        graph = asking_twice(SlowAtFirst(responses=["late", "in time"]), **{kind: LIMIT})
        return asyncio.run(graph.ainvoke({}))

    for _ in range(3):  # a recording may sleep once or twice
        with use_cassette(tmp_path / "c.yaml", mode="record") as recording:
            recorded = run()
        assert len(recording.report.recorded) == 2
        for _ in range(3):
            with use_cassette(tmp_path / "c.yaml") as replay:
                assert run() == recorded
            assert replay.report.nondeterminism == ()


def test_a_replay_passes_the_time_of_an_idle_node(tmp_path: Path) -> None:
    """The watchdog sleeps as often as in the recording, and not again and again until its own clock has come there."""

    class Counting(asyncio.SelectorEventLoop):
        """A loop that counts its timers."""

        timers = 0

        def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
            self.timers += 1
            return super().call_at(*args, **kwargs)

    counts = []
    for mode in ("record", "replay"):
        model = SlowAtFirst(responses=["late", "in time"])
        with use_cassette(tmp_path / "c.yaml", mode=mode), asyncio.Runner(loop_factory=Counting) as runner:
            runner.run(asking_twice(model, idle_timeout=1).ainvoke({}))
            counts.append(runner.get_loop().timers)
    assert counts[1] <= counts[0] + 2
