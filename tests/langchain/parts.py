"""Fakes of the parts that an agent is made of, beside chat models and tools, and how each is used.

Each answers with the number of the call, so no two answers are alike.
"""

# ruff: noqa: D103 - their names say what they do

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import LLM, BaseLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel

from agenttape_langchain import (
    ReplayChatMessageHistory,
    ReplayDocumentCompressor,
    ReplayEmbeddings,
    ReplayLLM,
    ReplayRetriever,
    ReplayStore,
    ReplayVectorStore,
)

from ..kit.world import World

# -- embeddings -------------------------------------------------------------------------------------------------------


class PlainEmbeddings(Embeddings):
    """Has the two methods that every model must have; no two vectors are alike."""

    def __init__(self, world: World, dimensions: int = 4, model: str = "embed-1") -> None:
        self.world = world
        self.dimensions = dimensions
        self.model = model
        self.api_key = "sk-never-recorded"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.vector(text)

    def vector(self, text: str) -> list[float]:
        number = self.world.reach("embeddings")
        return [number + len(text) / (n + 3) for n in range(self.dimensions)]


class DelegatingEmbeddings(PlainEmbeddings):
    """Embeds a query as a list of one document, as several providers do."""

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class AsyncEmbeddings(PlainEmbeddings):
    """Has asynchronous methods of its own."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [self.vector(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


class PydanticEmbeddings(BaseModel, Embeddings):
    """Is a pydantic model, as most providers' are."""

    world: Any
    dimensions: int = 4

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(self.world.reach("embeddings"))] * self.dimensions


async def embed(model: Any) -> list[Any]:
    return [
        model.embed_query("a"),
        model.embed_documents(["b", "c"]),
        await model.aembed_query("d"),
        await model.aembed_documents(["e", "f"]),
        model.embed_documents([]),
    ]


# -- retrievers -------------------------------------------------------------------------------------------------------


class FakeRetriever(BaseRetriever):
    """The base of the fakes: they find `k` documents, no two alike."""

    world: Any
    k: int = 2

    def found(self, query: str) -> list[Document]:
        """Reach the world and return what it finds."""
        number = self.world.reach("retriever")
        metadata = {"score": 0.5, "tags": ("a", "b")}
        return [Document(f"{query} {number}.{n}", metadata=metadata, id=f"doc-{number}-{n}") for n in range(self.k)]


class PlainRetriever(FakeRetriever):
    """As the documentation of the framework shows it."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found(query)


class BareRetriever(FakeRetriever):
    """Takes no run manager."""

    def _get_relevant_documents(self, query: str) -> list[Document]:  # type: ignore[override]
        return self.found(query)


class ConfigurableRetriever(FakeRetriever):
    """Takes more than a query."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, k: int | None = None, **kwargs: Any
    ) -> list[Document]:
        return self.found(query)[:k]


class AsyncRetriever(FakeRetriever):
    """Has an asynchronous search of its own."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found(query)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0)
        return self.found(query)


async def search(retriever: Any) -> list[Any]:
    return [
        retriever.invoke("a"),
        await retriever.ainvoke("b"),
        retriever.batch(["c", "d"]),
        [(ev["event"], ev["name"], ev["data"]) async for ev in retriever.astream_events("e", version="v2")],
        (RunnableLambda(lambda question: question.upper()) | retriever).invoke("f"),
    ]


# -- vector stores ----------------------------------------------------------------------------------------------------


class RemoteVectorStore(VectorStore):
    """A store somewhere else: it has the fewest methods that the interface wants, and keeps nothing in the process."""

    def __init__(self, world: World, collection_name: str = "cats") -> None:
        self.world = world
        self.collection_name = collection_name

    def add_texts(
        self, texts: Iterable[str], metadatas: Any = None, *, ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        return [f"id-{self.world.reach('add')}" for _ in texts]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        return self.world.reach("delete") > 0

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        return [Document(f"got {self.world.reach('get')}", id=each) for each in ids]

    def similarity_search(self, query: str, k: int = 4, filter: Any = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        return [doc for doc, _ in self.similarity_search_with_score(query, k, filter)]

    def similarity_search_with_score(self, *args: Any, **kwargs: Any) -> list[tuple[Document, float]]:
        number = self.world.reach("search")
        return [(Document(f"{args[0]} {number}", metadata={"n": number}), 0.25 * n) for n in range(2)]

    def max_marginal_relevance_search(self, query: str, *args: Any, **kwargs: Any) -> list[Document]:
        return [Document(f"{query} {self.world.reach('mmr')}")]

    def _select_relevance_score_fn(self) -> Any:
        return lambda distance: 1.0 - distance

    @classmethod
    def from_texts(cls, texts: list[str], embedding: Any, metadatas: Any = None, **kwargs: Any) -> RemoteVectorStore:
        store = cls(embedding.world)
        store.add_texts(texts, metadatas)
        return store


class DocumentVectorStore(RemoteVectorStore):
    """Implements the other of the two ways of adding."""

    add_texts = VectorStore.add_texts

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        return [f"id-{self.world.reach('add')}" for _ in documents]


async def use_vector_store(store: Any) -> list[Any]:
    return [
        store.add_texts(texts=iter(["a", "b"])),
        store.add_documents([Document("c", metadata={"x": 1}), Document("d")]),
        store.similarity_search("q"),
        store.similarity_search("q", 2, filter={"year": 1984}),
        store.similarity_search_with_score("q", k=1),
        store.similarity_search_with_relevance_scores("q", k=1),
        store.max_marginal_relevance_search("q", fetch_k=3),
        store.search("q", "similarity"),
        store.get_by_ids(["id-1"]),
        store.delete(["id-1"]),
        await store.aadd_texts(iter(["e"])),
        await store.aadd_documents([Document("f")]),
        await store.asimilarity_search("q", k=5),
        await store.asimilarity_search_with_score("r"),
        await store.asimilarity_search_with_relevance_scores("r"),
        await store.asearch("r", "mmr"),
        await store.aget_by_ids(["id-2"]),
        await store.adelete(["id-2"]),
    ]


# -- key-value stores -------------------------------------------------------------------------------------------------


class RemoteStore(BaseStore[str, bytes]):
    """A store somewhere else: the world holds what is in it."""

    def __init__(self, world: World, namespace: str = "cats") -> None:
        self.world = world
        self.namespace = namespace

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        number = self.world.reach("get")
        return [f"{key} {number}".encode() if key != "missing" else None for key in keys]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        self.world.reach("set")

    def mdelete(self, keys: Sequence[str]) -> None:
        self.world.reach("delete")

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        for _ in range(3):
            yield f"{prefix} {self.world.reach('keys')}"


class AsyncStore(RemoteStore):
    """Has asynchronous methods of its own."""

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        await asyncio.sleep(0)
        return self.mget(keys)

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        for key in self.yield_keys(prefix=prefix):
            yield key


async def use_store(store: Any) -> list[Any]:
    return [
        store.mset([("a", b"\x00\xff"), ("b", b"text")]),
        store.mget(["a", "missing"]),
        list(store.yield_keys(prefix="a")),
        list(store.yield_keys()),
        store.mdelete(["a"]),
        await store.amset([("c", b"")]),
        await store.amget(["c"]),
        [key async for key in store.ayield_keys(prefix="c")],
        await store.amdelete(["c"]),
    ]


# -- histories --------------------------------------------------------------------------------------------------------


class RemoteHistory(BaseChatMessageHistory):
    """Keeps its messages somewhere else, in `kept` by session."""

    def __init__(self, world: World, kept: Any = None, session_id: str = "1") -> None:
        self.world = world
        self.kept: dict[str, list[BaseMessage]] = {} if kept is None else kept
        self.session_id = session_id

    @property
    def messages(self) -> list[BaseMessage]:
        """Read them."""
        self.world.reach("read")
        return list(self.kept.get(self.session_id, []))

    @messages.setter
    def messages(self, messages: list[BaseMessage]) -> None:
        self.kept[self.session_id] = messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.world.reach("add")
        self.kept.setdefault(self.session_id, []).extend(messages)

    def clear(self) -> None:
        self.world.reach("clear")
        self.kept.pop(self.session_id, None)


class OneByOneHistory(RemoteHistory):
    """Implements the other of the two ways of adding."""

    add_messages = BaseChatMessageHistory.add_messages

    def add_message(self, message: BaseMessage) -> None:
        self.world.reach("add")
        self.kept.setdefault(self.session_id, []).append(message)


class AsyncHistory(RemoteHistory):
    """Has asynchronous methods of its own."""

    async def aget_messages(self) -> list[BaseMessage]:
        await asyncio.sleep(0)
        return self.messages

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await asyncio.sleep(0)
        self.add_messages(messages)


async def converse(history: Any) -> list[Any]:
    return [
        history.add_message(HumanMessage("a", id="1")),
        history.add_user_message("b"),
        history.add_ai_message(AIMessage("c", additional_kwargs={"x": 1})),
        history.add_messages([HumanMessage("d"), AIMessage("e")]),
        history.messages,
        str(history),
        await history.aadd_messages([HumanMessage("f")]),
        await history.aget_messages(),
        history.clear(),
        history.messages,
        await history.aclear(),
    ]


# -- compressors ------------------------------------------------------------------------------------------------------


DOCUMENTS = [Document(f"text {n}", metadata={"n": n, "at": object}, id=str(n)) for n in range(4)]


class Reranker(BaseDocumentCompressor):
    """Keeps the last documents, and notes the order of its calls."""

    world: Any
    top_n: int = 2
    model: str = "rerank-1"
    cohere_api_key: str = "never-recorded"

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        number = self.world.reach("reranker")
        kept = [doc for doc in documents if doc.metadata["n"] >= len(documents) - self.top_n]
        return [Document(doc.page_content, metadata={"score": number, "query": query}, id=doc.id) for doc in kept]


class AsyncReranker(Reranker):
    """Has an asynchronous method of its own."""

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        await asyncio.sleep(0)
        return self.compress_documents(documents, query, callbacks)


async def compress(compressor: Any) -> list[Any]:
    return [
        compressor.compress_documents(DOCUMENTS, "a"),
        await compressor.acompress_documents(DOCUMENTS, "b"),
        compressor.compress_documents(query="c", documents=DOCUMENTS, callbacks=[]),
    ]


# -- text models ------------------------------------------------------------------------------------------------------


class FakeText(BaseLLM):
    """The base of the fakes.

    Args:
        world: The world that is reached by each call.
        model_name: What the provider would be asked for.
    """

    world: Any
    model_name: str = "text-1"
    temperature: float = 0.5

    @property
    def _llm_type(self) -> str:
        return "fake-text"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "temperature": self.temperature}

    def said(self, prompt: str) -> str:
        """Reach the world and return what it says."""
        return f"answer {self.world.reach('model')} to {prompt}"

    def _generate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> LLMResult:
        generations = [[Generation(text=self.said(p), generation_info={"finish_reason": "stop"})] for p in prompts]
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        return LLMResult(generations=generations, llm_output={"token_usage": usage, "model_name": self.model_name})


class BatchingText(FakeText):
    """Has only `_generate`."""


class StreamingText(FakeText):
    """Streams too."""

    def _stream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[GenerationChunk]:
        for word in self.said(prompt).split(" "):
            chunk = GenerationChunk(text=f"{word} ", generation_info={"word": word} if word == "to" else None)
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class AsyncText(StreamingText):
    """Has all four leaves."""

    async def _agenerate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> LLMResult:
        return self._generate(prompts, stop, **kwargs)

    async def _astream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[GenerationChunk]:
        for chunk in self._stream(prompt, stop, **kwargs):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class SimpleText(LLM):
    """Has only `_call`, as the simplest models do."""

    world: Any

    @property
    def _llm_type(self) -> str:
        return "simple"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return f"answer {self.world.reach('model')} to {prompt}"


async def complete(model: Any) -> list[Any]:
    return [
        model.invoke("a", stop=["."]),
        await model.ainvoke("b"),
        list(model.stream("c")),
        [chunk async for chunk in model.astream("d")],
        model.batch(["e", "f"]),
        await model.abatch(["g", "h"]),
        (PromptTemplate.from_template("{q}") | model).invoke({"q": "j"}),
    ]


# -- all of them ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A sort of part.

    Args:
        classes: The fakes, one for each way in which the interface is implemented.
        kinds: The kinds of the recordings that `use` makes, one for each call.
        use: Makes every call of the interface, and returns what they returned.
        ask: Makes one call for a text.
        aask: Makes the same call asynchronously.
        settings: Settings that make it another one.
        stand_in: Makes one of a cassette.
    """

    classes: tuple[type[Any], ...]
    kinds: tuple[str, ...]
    use: Callable[[Any], Awaitable[list[Any]]]
    ask: Callable[[Any, str], Any]
    aask: Callable[[Any, str], Awaitable[Any]]
    settings: dict[str, Any]
    stand_in: Callable[..., Any]


READ, WRITTEN = "retrieval", "memory"
PARTS = {
    "embeddings": Part(
        (PlainEmbeddings, DelegatingEmbeddings, AsyncEmbeddings, PydanticEmbeddings),
        ("embeddings",) * 5,
        embed,
        lambda model, text: model.embed_query(text),
        lambda model, text: model.aembed_query(text),
        {"dimensions": 8, "model": "embed-2"},
        ReplayEmbeddings,
    ),
    "retriever": Part(
        (PlainRetriever, BareRetriever, ConfigurableRetriever, AsyncRetriever),
        (READ,) * 6,
        search,
        lambda retriever, text: retriever.invoke(text),
        lambda retriever, text: retriever.ainvoke(text),
        {"k": 10},
        ReplayRetriever,
    ),
    "vector store": Part(
        (RemoteVectorStore, DocumentVectorStore),
        (WRITTEN,) * 2 + (READ,) * 7 + (WRITTEN,) * 3 + (READ,) * 5 + (WRITTEN,),
        use_vector_store,
        lambda store, text: store.similarity_search(text),
        lambda store, text: store.asimilarity_search(text),
        {"collection_name": "dogs"},
        ReplayVectorStore,
    ),
    "store": Part(
        (RemoteStore, AsyncStore),
        (WRITTEN,) * 9,
        use_store,
        lambda store, text: store.mget([text]),
        lambda store, text: store.amget([text]),
        {"namespace": "dogs"},
        ReplayStore,
    ),
    "history": Part(
        (RemoteHistory, OneByOneHistory, AsyncHistory),
        (WRITTEN,) * 11,
        converse,
        lambda history, _: history.messages,
        lambda history, _: history.aget_messages(),
        {"session_id": "2"},
        ReplayChatMessageHistory,
    ),
    "compressor": Part(
        (Reranker, AsyncReranker),
        (READ,) * 3,
        compress,
        lambda compressor, text: compressor.compress_documents(DOCUMENTS, text),
        lambda compressor, text: compressor.acompress_documents(DOCUMENTS, text),
        {"top_n": 1, "model": "rerank-2"},
        ReplayDocumentCompressor,
    ),
    "text model": Part(
        (BatchingText, StreamingText, AsyncText, SimpleText),
        ("completion",) * 7,
        complete,
        lambda model, text: model.invoke(text),
        lambda model, text: model.ainvoke(text),
        {"temperature": 0.9, "model_name": "text-2"},
        ReplayLLM,
    ),
}
