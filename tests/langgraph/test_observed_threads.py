"""What nodes in threads did at once while they were observed comes in the order of its times in a replay."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy

from agenttape_core import use_cassette
from agenttape_langchain import TapeCallbackHandler

if TYPE_CHECKING:
    from pathlib import Path

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
