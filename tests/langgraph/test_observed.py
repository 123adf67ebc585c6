"""What a handler has observed replays as the same run, or is refused with the reason."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import TapeCallbackHandler

from .fakes import NativeChat, World, arun, run
from .observed_programs import ASKED, PROGRAMS, by_last

# -- What a handler has observed replays as the same run, or is refused with the reason: a table of programs -----------

_DRAWN = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
"""An id that the frameworks have drawn: of a message without one, of a run, of a task, of an interrupt."""


def renamed(value: Any) -> str:
    """Return a value in full, its drawn ids numbered: a handler freezes none, but each must stand where it stood."""
    numbers: dict[str, str] = {}
    return _DRAWN.sub(lambda found: numbers.setdefault(found[0], f"<{len(numbers)}>"), repr(value))


@pytest.mark.sweep
@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_observed_programs(name: str, is_async: bool, world: World, tmp_path: Path) -> None:
    """A replay of an observed program gives all that it gave, or says what the handler could not see."""
    # The programs that no observer sees enough of, and the reason that a replay gives.
    refused = {
        "embedding": "fires callbacks for chat models, text models, tools and retrievers only",
        "drawing_numbers": "recorded by a handler, which freezes nothing",
    }

    program = PROGRAMS[name]

    def drive(**config: Any) -> Any:
        calls = program(world, {"configurable": {"thread_id": "1"}, **config})
        return asyncio.run(arun(calls)) if is_async else run(calls)

    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        observed = drive(callbacks=[handler])
    assert handler.errors == []
    world.gone = True
    if name in refused:
        with pytest.raises(CassetteMissError, match=refused[name]), use_cassette(tmp_path / "c.jsonl"):
            drive()
        return
    with use_cassette(tmp_path / "c.jsonl") as session:
        replayed = drive()
    assert renamed(replayed) == renamed(observed)
    assert session.report.unused == ()


@pytest.mark.parametrize("name", ["swarm", "streaming_tools", "remembering_tools", "asking_tools"])
def test_a_handler_in_a_session(name: str, world: World, tmp_path: Path) -> None:
    """A handler and a session record the same run, each all of it; a replay may be observed like any run."""

    def drive(**config: Any) -> Any:
        return run(PROGRAMS[name](world, {"configurable": {"thread_id": "1"}, **config}))

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler, use_cassette(tmp_path / "taped.jsonl", mode="all"):
        recorded = drive(callbacks=[handler])
    world.gone = True
    with TapeCallbackHandler(tmp_path / "again.jsonl") as again, use_cassette(tmp_path / "taped.jsonl"):
        assert drive(callbacks=[again]) == recorded
    for path in ("seen.jsonl", "again.jsonl"):
        with use_cassette(tmp_path / path):
            assert renamed(drive()) == renamed(recorded)
    assert (handler.errors, again.errors) == ([], [])


def test_metadata_of_parts_keep_their_order(world: World, tmp_path: Path) -> None:
    """The metadata of chunks of an agent within a tool have the keys in the order in which they came."""
    inner = create_agent(NativeChat(world=world, model_name="inner"), [], name="inner")

    @tool
    async def dig() -> str:
        """Dig."""
        return str((await inner.ainvoke(ASKED))["messages"][-1].text)

    async def drive(**config: Any) -> list[list[str]]:
        agent: Any = create_agent(by_last(world, ("dig", {})), [dig])
        builder = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")
        given = {"configurable": {"thread_id": "1"}, **config}
        parts = builder.compile().astream(ASKED, given, stream_mode="messages", subgraphs=True)
        return [list(metadata) async for _, (_, metadata) in parts]

    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        observed = asyncio.run(drive(callbacks=[handler]))
    assert handler.errors == []
    world.gone = True
    with use_cassette(tmp_path / "c.jsonl"):
        assert asyncio.run(drive()) == observed


def test_effects_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    """The run goes on, the call is marked, and its replay is refused with the reason."""

    @tool
    def dig() -> str:
        """Dig."""
        get_stream_writer()({"handle": object()})
        return f"dug {world.reach('dig')}"

    def drive(**config: Any) -> Any:
        agent: Any = create_agent(by_last(world, ("dig", {})), [dig])
        return list(agent.stream(ASKED, config, stream_mode="custom"))

    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        assert len(drive(callbacks=[handler])) == 1
    assert handler.errors == []
    world.gone = True
    told = "effect on its graph that cannot be written"
    with pytest.raises(CassetteMissError, match=told), use_cassette(tmp_path / "c.jsonl"):
        drive()


def test_the_config_of_a_caller_is_left_as_it_was(world: World, tmp_path: Path) -> None:
    """What a handler puts around a tool is gone when the tool has ended, however it did."""
    kept: list[Any] = []

    @tool
    def dig(n: int, config: RunnableConfig) -> str:
        """Dig."""
        if n:
            raise LookupError(n)
        return str(world.reach("dig"))

    def work(state: MessagesState, config: RunnableConfig) -> Any:
        before = dict(config["configurable"])
        for n in (0, 1):
            with suppress(LookupError):
                dig.run({"n": n}, config=config)
        kept.append(config["configurable"] == before)

    graph = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile()
    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        graph.invoke(ASKED, {"callbacks": [handler]})
    assert (handler.errors, kept) == ([], [True])


# -- What agents stream at once while they are observed comes in that order again --------------------------------------

AGENTS = 3
SPOKEN = 3
BETWEEN = "what is done between the answers of calls that are awaited at once may come in another order"


class Provider:
    """Sends the words of several streams in one order, each some rounds of the loop after the one before.

    Args:
        order: The numbers of the streams.
        rounds: How many.
    """

    def __init__(self, order: list[int], rounds: int) -> None:
        self._order, self._rounds = order, rounds
        self._asked = [asyncio.Event() for _ in range(AGENTS)]
        self._sent = [asyncio.Queue[int]() for _ in range(AGENTS)]

    async def send(self) -> None:
        """Send all words, once all have asked and some time has passed."""
        for each in self._asked:
            await each.wait()
        await asyncio.sleep(0.01)
        for number in self._order:
            self._sent[number].put_nowait(number)
            for _ in range(self._rounds):
                await asyncio.sleep(0)

    async def word(self, number: int) -> None:
        """Wait for the next word of a stream."""
        self._asked[number].set()
        await self._sent[number].get()


@pytest.mark.sweep
@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("order", ["012012012", "000111222", "210012120", "001122012"])
async def test_agents_that_stream_at_once(order: str, rounds: int, tmp_path: Path) -> None:
    """Words and updates come in the recorded order, though a handler sees the end of a stream some rounds later."""

    class Speaker(BaseChatModel):
        """Streams words of a provider; without one, it is gone."""

        provider: Any = None

        @property
        def _llm_type(self) -> str:
            return "speaker"

        def _generate(self, *_: Any, **__: Any) -> ChatResult:
            raise AssertionError

        async def _astream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
            for word in range(SPOKEN):
                await self.provider.word(int(messages[-1].text))
                yield ChatGenerationChunk(message=AIMessageChunk(f"{word}"))

    async def streamed(provider: Provider | None, config: Any = None) -> list[tuple[int, str]]:
        """Run agents at once, and return what they streamed as it came: words, and updates of their states."""
        came: list[tuple[int, str]] = []

        async def run(number: int) -> None:
            agent = create_agent(Speaker(provider=provider), [])
            said = {"messages": [("user", f"{number}")]}
            async for mode, part in agent.astream(said, config, stream_mode=["updates", "messages"]):
                came.append((number, part[0].text if mode == "messages" else mode))

        await asyncio.gather(*map(run, range(AGENTS)), *([provider.send()] if provider is not None else []))
        return came

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = await streamed(Provider([*map(int, order)], rounds), {"callbacks": [handler]})
    assert handler.errors == []
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert await streamed(None) == observed
    assert BETWEEN not in session.report.unobserved
    assert session.report.nondeterminism == ()


# -- What nodes in threads did at once while they were observed comes in the order of its times in a replay ------------

WORDS, NODES = 4, "abc"
_LIMIT = 20.0


class Turnstile:
    """Lets the chunks of several models pass in one order. A chunk has passed when its reader wants another one."""

    def __init__(self, order: list[str]) -> None:
        self._left, self._changed = order, threading.Condition()
        self.is_gone = False

    def enter(self, name: str) -> None:
        """Wait for the turn of a model."""
        assert not self.is_gone, "the model was asked in a replay"
        with self._changed:
            assert self._changed.wait_for(lambda: self._left[0] == name, timeout=_LIMIT)

    def leave(self) -> None:
        """Give the turn to the next one, a moment later: a recording knows tenths of milliseconds."""
        time.sleep(0.0005)
        with self._changed:
            self._left.pop(0)
            self._changed.notify_all()


class Speaker(BaseChatModel):
    """Says its name, word by word, when it has the turn."""

    name: str = ""
    turnstile: Any = None

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("whole"))])

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for number in range(WORDS):
            self.turnstile.enter(self.name)
            yield ChatGenerationChunk(message=AIMessageChunk(f"{self.name}{number} "))
            self.turnstile.leave()


class State(TypedDict):
    """What was said."""

    said: Annotated[list[str], lambda old, new: [*old, *new]]


@pytest.mark.parametrize("fails", ["", "a"], ids=["", "after another attempt"])
@pytest.mark.parametrize("seed", range(2))
def test_chunks_of_threads(seed: int, fails: str, tmp_path: Path) -> None:
    """Chunks that came by turns from nodes in threads come in that order again, in each replay, and none is named."""

    def spoken(turnstile: Turnstile, *, fails: str = "", config: Any = None) -> list[str]:
        """Let nodes speak at once, and return the words as they come; a node may fail at first, and is tried again."""
        failed = set[str]()

        def node(name: str) -> Any:
            model = Speaker(name=name, turnstile=turnstile)

            def speak(_: State) -> dict[str, Any]:
                if name in fails and name not in failed:
                    failed.add(name)
                    raise ConnectionError(name)
                return {"said": [model.invoke(f"Speak, {name}").text]}

            return speak

        graph = StateGraph(State)
        for name in NODES:
            graph.add_node(name, node(name), retry_policy=RetryPolicy(initial_interval=0.002, jitter=False))
            graph.add_edge(START, name)
        parts = graph.compile().stream({"said": []}, config, stream_mode="messages")
        return [message.text for message, _ in parts if message.text]

    order = [name for name in NODES for _ in range(WORDS)]
    random.Random(seed).shuffle(order)
    turnstile = Turnstile(order)
    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = spoken(turnstile, fails=fails, config={"callbacks": [handler]})
    assert handler.errors == []
    assert [word[0] for word in observed] != sorted(word[0] for word in observed)
    turnstile.is_gone = True
    for _ in range(3):
        with use_cassette(tmp_path / "seen.jsonl") as session:
            assert spoken(turnstile, fails=fails) == observed
        assert session.report.nondeterminism == ()


@pytest.mark.parametrize("first", "abc")
def test_quick_calls_of_threads(first: str, tmp_path: Path) -> None:
    """Calls of nodes in threads, none of which overlapped another, are answered in their order, in each replay."""
    left, is_gone = [first, *(name for name in NODES if name != first)], threading.Event()
    changed = threading.Condition()

    def node(name: str) -> Any:
        @tool
        def look(what: str) -> str:
            """Look."""
            assert not is_gone.is_set(), "the tool was called in a replay"
            return f"{what} seen"

        def go(_: State) -> dict[str, Any]:
            if is_gone.is_set():
                return {"said": [look.invoke({"what": name})]}
            with changed:
                assert changed.wait_for(lambda: left[0] == name, timeout=_LIMIT)
                said = look.invoke({"what": name})
                time.sleep(0.0005)  # a recording knows tenths of milliseconds
                left.pop(0)
                changed.notify_all()
            return {"said": [said]}

        return go

    def streamed(config: Any = None) -> list[str]:
        graph = StateGraph(State)
        for name in NODES:
            graph.add_node(name, node(name)).add_edge(START, name)
        return [next(iter(part)) for part in graph.compile().stream({"said": []}, config, stream_mode="updates")]

    order = list(left)
    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        streamed({"callbacks": [handler]})
    assert handler.errors == []
    is_gone.set()
    for _ in range(5):
        with use_cassette(tmp_path / "seen.jsonl") as session:
            assert streamed() == order
        assert session.report.nondeterminism == ()


def test_threads_of_loops_are_named(tmp_path: Path) -> None:
    """Which of the threads that work for a loop is first is a matter of speed, so a replay names it."""
    is_gone = False

    def node(name: str) -> Any:
        @tool
        def look(what: str) -> str:
            """Look."""
            assert not is_gone, "the tool was called in a replay"
            return f"{what} seen"

        return lambda _: {"said": [look.invoke({"what": name})]}

    async def streamed(config: Any = None) -> list[Any]:
        graph = StateGraph(State)
        for name in NODES:
            graph.add_node(name, node(name)).add_edge(START, name)
        return [part async for part in graph.compile().astream({"said": []}, config, stream_mode="updates")]

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        asyncio.run(streamed({"callbacks": [handler]}))
    assert handler.errors == []
    is_gone = True
    with use_cassette(tmp_path / "seen.jsonl") as session:
        asyncio.run(streamed())
    assert any("awaited at once" in line for line in session.report.unobserved)
    assert session.report.nondeterminism == ()


def test_a_thread_that_waits_elsewhere(tmp_path: Path) -> None:
    """A thread that waits where it can't be seen does not hold up a run whose calls are made one after the other."""
    is_gone = False

    @tool
    def look(what: str) -> str:
        """Look."""
        assert not is_gone, "the tool was called in a replay"
        return f"{what} seen"

    def looked(config: Any = None) -> list[str]:
        reading, writing = os.pipe()
        thread = threading.Thread(target=os.read, args=(reading, 1))
        thread.start()
        seen = [look.invoke({"what": str(number)}, config) for number in range(4)]
        os.write(writing, b"x")
        thread.join()
        os.close(reading)
        os.close(writing)
        return seen

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = looked({"callbacks": [handler]})
    is_gone = True
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert looked() == observed
    assert session.report.nondeterminism == ()
    assert len(session.report.unobserved) <= 1
