"""Parallel branches, threads and events of a graph come in the recorded order in a replay."""

from __future__ import annotations

import asyncio
import operator
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, dispatch_custom_event
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.testing import raw

from ..kit.replaying import recorded_as_replayed
from .fakes import MODES

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(is in beta|is experimental)"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


CONFIG: Any = {"configurable": {"thread_id": "1"}}


# -- What parallel branches of an async graph stream, and the events of it, come in the recorded order in a replay -----

LATENCIES = (0, 0, 0.001, 0.002)
"""Seconds: few and short, so that chunks collide."""
GIVEN: Any = {"said": [], "n": 0}


class Words(BaseChatModel):
    """Says three words, each after a random time."""

    random: Any
    gone: bool = False
    model: str = "words-1"

    @property
    def _llm_type(self) -> str:
        return "words"

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        await self.wait()
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"re {messages[-1].text}"))])

    async def _astream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for number in range(3):
            await self.wait()
            yield ChatGenerationChunk(message=AIMessageChunk(f"{messages[-1].text}{number} "))

    async def wait(self) -> None:
        """Wait for a random time."""
        assert not self.gone, "was reached"
        await asyncio.sleep(self.random.choice(LATENCIES))


class Asked(TypedDict):
    """What was said."""

    said: Annotated[list[str], operator.add]
    n: int


def graph(model: Words, *, beside: int = 0) -> Any:
    """Return a graph that asks twice in each of three branches, beside nodes that run in threads."""

    async def asks(state: Asked) -> dict[str, Any]:
        first = await model.ainvoke(f"a{state['n']}")
        return {"said": [first.text, (await model.ainvoke(f"b{state['n']}")).text]}

    def computes(state: Asked) -> dict[str, Any]:
        return {"said": [f"computed {state['n']}"]}

    builder = StateGraph(Asked).add_node("asks", asks).add_node("computes", computes)
    sends = [Send("asks", {"n": n, "said": []}) for n in range(3)]
    sends += [Send("computes", {"n": n, "said": []}) for n in range(beside)]
    return builder.add_conditional_edges(START, lambda _: sends, ["asks", "computes"]).compile()


async def streamed(graph: Any) -> list[Any]:
    """Stream in all modes."""
    return [raw(part) async for part in graph.astream(GIVEN, stream_mode=MODES, subgraphs=True)]


def events(version: str) -> Callable[[Any], Awaitable[list[Any]]]:
    """Return a function that takes down events."""

    async def run(graph: Any) -> list[Any]:
        found = graph.astream_events(GIVEN, version=version)
        return [raw(event) async for event in (found if version != "v3" else await found)]

    return run


@pytest.mark.sweep
@pytest.mark.parametrize("run", [streamed, events("v1"), events("v2"), events("v3")], ids=["astream", "v1", "v2", "v3"])
@pytest.mark.parametrize("beside", [0, 2], ids=["in tasks", "and in threads"])
def test_branches_that_stream_at_once_stream_in_the_recorded_order(run: Any, beside: int, tmp_path: Path) -> None:
    """Chunks of models that answer at the same times come in the same order, twice in a row."""
    model = Words(random=random.Random(7))
    for number in range(2):
        path = tmp_path / f"{number}.yaml"
        model.gone = False
        with use_cassette(path, mode="all"):
            recorded = asyncio.run(run(graph(model, beside=beside)))
        model.gone = True
        for _ in range(2):
            with use_cassette(path) as session:
                replayed = asyncio.run(run(graph(model, beside=beside)))
            assert replayed == recorded
            assert session.report.nondeterminism == ()


def test_calls_of_a_node_that_are_streamed_to_others_have_addresses_of_their_own(tmp_path: Path) -> None:
    """The second call of a model in a node is not at the address of the first, whoever listens."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        asyncio.run(streamed(graph(Words(random=random.Random(1)))))
    addresses = [call.address for call in open_cassette(tmp_path / "run.yaml").interactions()]
    assert len(addresses) == 6
    assert len(set(addresses)) == 6


# -- Orders of events, threads and loops at once: a replay keeps them --------------------------------------------------

MANY_REPLAYS = 6


class Model(GenericFakeChatModel):
    """A chat model that says its lines."""

    model: str = "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


class Seen:
    """Keeps the names of events in order."""

    def __init__(self) -> None:
        self.names: list[str] = []


class Sync(Seen, BaseCallbackHandler):
    """A handler that runs in the context of the run."""

    run_inline = True

    def on_tool_start(self, *_: Any, **__: Any) -> None:
        self.names.append("start")

    def on_tool_end(self, *_: Any, **__: Any) -> None:
        self.names.append("end")

    def on_custom_event(self, name: str, data: Any, **__: Any) -> None:
        self.names.append(name)


class Async(Seen, AsyncCallbackHandler):
    """A handler of coroutines."""

    async def on_tool_start(self, *_: Any, **__: Any) -> None:
        self.names.append("start")

    async def on_tool_end(self, *_: Any, **__: Any) -> None:
        self.names.append("end")

    async def on_custom_event(self, name: str, data: Any, **__: Any) -> None:
        self.names.append(name)


@tool
def announce(text: str) -> str:
    """Announce."""
    dispatch_custom_event("event", {})
    return text


@pytest.mark.parametrize("handler", [Sync, Async])
def test_custom_events_of_parallel_tools(handler: Any, tmp_path: Path) -> None:
    """Events that two replayed tools dispatch come in the recorded order, between the starts and ends of both."""

    def run() -> list[str]:
        seen = handler()
        calls: Any = [{"name": "announce", "args": {"text": str(n)}, "id": str(n)} for n in range(2)]
        model = Model(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
        agent = create_agent(model, [announce])
        inputs: Any = {"messages": [("user", "go")]}
        asyncio.run(agent.ainvoke(inputs, {"callbacks": [seen]}))
        return seen.names  # type: ignore[no-any-return]

    recorded_as_replayed(tmp_path / "c.yaml", run, MANY_REPLAYS)


DELAYS = [0.01, 0.0102, 0.02, 0.0202]


@boundary
async def look(number: int) -> int:
    """Answer after a while; two of four answers come almost together."""
    await asyncio.sleep(DELAYS[number])
    return number


def test_loop_and_threads_write_to_one_list(tmp_path: Path) -> None:
    """What a loop and its threads append to one list comes in the recorded order."""

    def run() -> list[Any]:
        out: list[Any] = []

        async def one(number: int) -> None:
            await asyncio.to_thread(int, number)
            await look(number)
            out.append(("loop", number))
            await asyncio.to_thread(out.append, number)

        async def main() -> None:
            await asyncio.gather(*map(one, range(4)))

        asyncio.run(main())
        return out

    recorded_as_replayed(tmp_path / "c.yaml", run, MANY_REPLAYS)


def test_agents_on_uvloop(tmp_path: Path) -> None:
    """Three agents with a sync and an async tool on uvloop replay in the recorded order."""
    uvloop = pytest.importorskip("uvloop")

    @tool
    def here(text: str) -> str:
        """Look here."""
        return text

    @tool
    async def there(text: str) -> str:
        """Look there."""
        await asyncio.sleep(0.001)
        return text

    def run() -> Any:
        seen = Sync()

        async def one(number: int) -> str:
            calls: Any = [
                {"name": name, "args": {"text": f"{name} {number}"}, "id": f"{name}{number}"}
                for name in ("here", "there")
            ]
            agent = create_agent(
                Model(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")])), [here, there]
            )
            inputs: Any = {"messages": [("user", f"go {number}")]}
            end = await agent.ainvoke(inputs, {"callbacks": [seen]})
            return str(end["messages"][-1].text)

        async def main() -> list[str]:
            return await asyncio.gather(*map(one, range(3)))

        return uvloop.run(main()), seen.names

    recorded_as_replayed(tmp_path / "c.yaml", run, MANY_REPLAYS)


# -- Synchronous code that uses threads, in a coroutine: its threads have no recorded order, and each replay says ------

NAMES = ("a", "b", "c")


class Together:
    """The outside: answers the calls of all threads together, in an order of its own."""

    def __init__(self) -> None:
        self._all = threading.Barrier(len(NAMES), timeout=30)
        self._random = random.Random(7)
        self.gone = False

    @property
    def ask(self) -> Callable[[str], str]:
        """Answers once all have asked."""

        @boundary("call")
        def ask(question: str) -> str:
            assert not self.gone, "was reached"
            self._all.wait()
            time.sleep(self._random.uniform(0, 0.003))
            return f"{question}!"

        return ask


class Written(TypedDict, total=False):
    """What branches write to together."""

    said: Annotated[list[str], operator.add]


def a_pool(ask: Callable[[str], str]) -> Any:
    """Take what a pool has done as it comes."""
    with ThreadPoolExecutor(len(NAMES)) as pool:
        return [done.result() for done in as_completed([pool.submit(ask, name) for name in NAMES])]


def a_graph(ask: Callable[[str], str]) -> Any:
    """Stream a graph with parallel nodes."""
    builder = StateGraph(Written)
    for name in NAMES:
        builder.add_node(name, lambda _, name=name: {"said": [ask(name)]}).add_edge(START, name)
    return list(builder.compile().stream({"said": []}, stream_mode="updates"))


@pytest.mark.parametrize("where", ["in the loop", "in a thread"])
@pytest.mark.parametrize("program", [a_pool, a_graph], ids=lambda program: program.__name__)
def test_threads_of_synchronous_code_in_a_coroutine_keep_their_order(
    program: Callable[[Callable[[str], str]], Any], where: str, tmp_path: Path
) -> None:
    """Threads for which a coroutine blocks its loop, or waits by `to_thread`, do the same in the same order."""
    world = Together()

    async def run(**options: Any) -> tuple[Any, tuple[str, ...]]:
        with use_cassette(tmp_path / "c.yaml", **options) as session:
            ended = program(world.ask) if where == "in the loop" else await asyncio.to_thread(program, world.ask)
            return ended, session.report.nondeterminism

    recorded, _ = asyncio.run(run(mode="once"))
    world.gone = True
    for _ in range(2):
        replayed, told = asyncio.run(run())
        if where == "in the loop":
            assert (replayed, told) == (recorded, ())
        else:
            assert replayed == recorded or told  # a machine that stands still is told
