"""What parallel branches of an async graph stream, and the events of it, come in the recorded order in a replay."""

from __future__ import annotations

import asyncio
import operator
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from agenttape_core import open_cassette, use_cassette
from agenttape_core.testing import raw

from .fakes import MODES

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(is in beta|is experimental)"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

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


class State(TypedDict):
    """What was said."""

    said: Annotated[list[str], operator.add]
    n: int


def graph(model: Words, *, beside: int = 0) -> Any:
    """Return a graph that asks twice in each of three branches, beside nodes that run in threads."""

    async def asks(state: State) -> dict[str, Any]:
        first = await model.ainvoke(f"a{state['n']}")
        return {"said": [first.text, (await model.ainvoke(f"b{state['n']}")).text]}

    def computes(state: State) -> dict[str, Any]:
        return {"said": [f"computed {state['n']}"]}

    builder = StateGraph(State).add_node("asks", asks).add_node("computes", computes)
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
