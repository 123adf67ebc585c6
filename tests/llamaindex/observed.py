"""Calls to observe, and the cassettes of observed runs as the tests read them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llama_index.core import PromptTemplate
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from agenttape_core import Interaction, Step, open_cassette
from agenttape_llamaindex import TapeEventHandler

from .fakes import DelegatingLLM, PromptingLLM
from .scripted import ScriptedEmbedding, ScriptedLLM, World

SAID = [ChatMessage(role="user", content="Rain?")]
Work = Callable[[World], Any]


@contextmanager
def observing(path: Path, **options: Any) -> Iterator[TapeEventHandler]:
    """Observe a run with a handler, which must have recorded everything at the end."""
    with TapeEventHandler(path, **options) as handler:
        yield handler
    assert handler.errors == []


def interactions(path: Any) -> list[Interaction]:
    """Return the interactions of a cassette."""
    return [record for record in open_cassette(path).records() if isinstance(record, Interaction)]


def steps(path: Any, *kinds: str) -> list[Step]:
    """Return the steps of a cassette, without those that mark gaps."""
    found = open_cassette(path).steps()
    return [step for step in found if step.kind != "gap" and (not kinds or step.kind in kinds)]


def answers_of(path: Any) -> Counter[Any]:
    """Count the interactions of a cassette by their requests and outcomes."""
    return Counter((i.kind, i.name, i.fingerprint, i.outcome.status, i.outcome.ended) for i in interactions(path))


def place(interaction: Interaction) -> str:
    """Return the address of an interaction, with concurrent branches counted like successive calls."""
    return interaction.address.replace("~1", "#2")


def drained(stream: Any) -> list[Any]:
    """Read a stream to its end."""
    return list(stream)


async def adrained(stream: Any) -> list[Any]:
    """Read a stream to its end."""
    return [item async for item in await stream]


CALLS: dict[str, Work] = {
    "chat": lambda world: ScriptedLLM(world).chat(SAID, temperature=0.5),
    "achat": lambda world: asyncio.run(ScriptedLLM(world).achat(SAID)),
    "stream_chat": lambda world: drained(ScriptedLLM(world).stream_chat(SAID)),
    "astream_chat": lambda world: asyncio.run(adrained(ScriptedLLM(world).astream_chat(SAID))),
    "complete": lambda world: ScriptedLLM(world).complete("Rain?", formatted=True),
    "acomplete": lambda world: asyncio.run(ScriptedLLM(world).acomplete("Rain?")),
    "stream_complete": lambda world: drained(ScriptedLLM(world).stream_complete("Rain?")),
    "astream_complete": lambda world: asyncio.run(adrained(ScriptedLLM(world).astream_complete("Rain?"))),
    "predict": lambda world: ScriptedLLM(world).predict(PromptTemplate("Say {x}"), x=1),
    "chat_with_tools": lambda world: ScriptedLLM(world).chat_with_tools([FunctionTool.from_defaults(_add)], "Rain?"),
    "closed early": lambda world: _read_one(ScriptedLLM(world).stream_chat(SAID)),
    "never read": lambda world: _drop(ScriptedLLM(world).stream_chat(SAID)),
    "delegated": lambda _: asyncio.run(adrained(Passing(max_tokens=2).astream_complete("a b c"))),
    "delegated to a base class": lambda world: DelegatingLLM(world).chat(SAID),
    "delegated twice": lambda world: asyncio.run(DelegatingLLM(world).achat(SAID)),
    "chat of a completion": lambda world: PromptingLLM(world).chat(SAID),
    "stream of a completion": lambda world: drained(PromptingLLM(world).stream_chat(SAID)),
    "chat of the framework": lambda _: MockLLM(max_tokens=2).chat(SAID),
    "stream of the framework": lambda _: asyncio.run(adrained(MockLLM(max_tokens=2).astream_chat(SAID))),
    "query embedding": lambda world: ScriptedEmbedding(world).get_query_embedding("a"),
    "async query embedding": lambda world: asyncio.run(ScriptedEmbedding(world).aget_query_embedding("a")),
    "text embedding": lambda world: ScriptedEmbedding(world).get_text_embedding("a"),
    "async text embedding": lambda world: asyncio.run(ScriptedEmbedding(world).aget_text_embedding("a")),
    "batch": lambda world: ScriptedEmbedding(world, embed_batch_size=2).get_text_embedding_batch(["a", "e", "i"]),
    "async batch": lambda world: asyncio.run(ScriptedEmbedding(world).aget_text_embedding_batch(["a", "e"])),
    "own batch": lambda world: Batches(world, embed_batch_size=2).get_text_embedding_batch(["a", "e", "i"]),
    "own async batch": lambda world: asyncio.run(Batches(world).aget_text_embedding_batch(["a", "e"])),
    "retriever": lambda world: Shelf(world).retrieve("rain"),
    "async retriever": lambda world: asyncio.run(Shelf(world).aretrieve("rain")),
    "own async retriever": lambda world: asyncio.run(AsyncShelf(world).aretrieve("rain")),
    "tool": lambda world: FunctionTool.from_defaults(world.reach, name="reach").call(what="it"),
    "async tool": lambda world: asyncio.run(FunctionTool.from_defaults(world.reach, name="reach").acall(what="it")),
    "called tool": lambda world: FunctionTool.from_defaults(world.reach, name="reach")("it"),
}


def _add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Passing(MockLLM):
    """Streams asynchronously by streaming."""

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        async def passed() -> Any:
            for response in self.stream_complete(prompt, formatted=formatted, **kwargs):
                yield response

        return passed()


def _read_one(stream: Any) -> Any:
    first = next(stream)
    stream.close()
    return first


def _drop(stream: Any) -> None:
    del stream


class Batches(ScriptedEmbedding):
    """An embedding model that embeds several texts at once, for which the framework begins no span."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]


class Shelf(BaseRetriever):
    """Finds one page, never the same."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        page = f"page {self._world.reach('shelf')} on {query_bundle.query_str}"
        return [NodeWithScore(node=TextNode(id_="n", text=page), score=0.5)]


class AsyncShelf(Shelf):
    """Has an asynchronous search of its own, for which the framework begins no span."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await ScriptedEmbedding(self._world).aget_query_embedding(query_bundle.query_str)
        return self._retrieve(query_bundle)
