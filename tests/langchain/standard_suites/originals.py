"""The objects that the suites tape, and their methods that reach the world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import BaseStore
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_tests.integration_tests.vectorstores import DeterministicFakeEmbedding

GONE = "http://127.0.0.1:9/v1"
"""An address without a service: the port of the discard protocol."""


class World:
    """The world outside, which the tools and the retriever of the suites reach."""

    gone: ClassVar[bool] = False

    @classmethod
    def ask(cls, question: str) -> str:
        """Answer a question.

        Raises:
            AssertionError: If the world is gone.
        """
        assert not cls.gone, f"the world was asked {question!r} although this is a replay"
        return f"the answer to {question}"


class Asking(BaseTool):
    """A tool with a class of its own."""

    name: str = "ask"
    description: str = "Ask the world."
    politeness: int = 0

    def _run(self, question: str) -> str:
        return World.ask(question + " please" * self.politeness)


class Shelves(BaseRetriever):
    """A retriever that finds the requested number of documents."""

    k: int = 2

    def _get_relevant_documents(self, query: str, *, run_manager: Any, **options: Any) -> list[Document]:
        found = World.ask(query)
        return [Document(found, id=str(n), metadata={"n": n}) for n in range(options.get("k", self.k))]


class RemoteVectors(VectorStore):
    """A vector store whose documents are in the world."""

    def __init__(self, embedding: Embeddings) -> None:
        self._there = InMemoryVectorStore(embedding)

    @classmethod
    def from_texts(cls, texts: list[str], embedding: Embeddings, metadatas: Any = None, **kwargs: Any) -> RemoteVectors:
        store = cls(embedding)
        store.add_texts(texts, metadatas, **kwargs)
        return store

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        World.ask("add")
        return self._there.add_documents(documents, ids, **kwargs)

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        World.ask("delete")
        self._there.delete(ids, **kwargs)

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        World.ask("get")
        return self._there.get_by_ids(ids)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        World.ask("search")
        return self._there.similarity_search(query, k, **kwargs)


class RemoteItems(BaseStore[str, Any]):
    """A key-value store whose items are in the world."""

    def __init__(self) -> None:
        self._there: dict[str, Any] = {}

    def mget(self, keys: Any) -> list[Any]:
        World.ask("get")
        return [self._there.get(key) for key in keys]

    def mset(self, key_value_pairs: Any) -> None:
        World.ask("set")
        self._there.update(key_value_pairs)

    def mdelete(self, keys: Any) -> None:
        World.ask("delete")
        for key in keys:
            self._there.pop(key, None)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        World.ask("keys")
        yield from [key for key in self._there if key.startswith(prefix or "")]


ORIGINALS: dict[type[Any], tuple[str, ...]] = {
    ChatOpenAI: ("_generate", "_agenerate", "_stream", "_astream"),
    OpenAIEmbeddings: ("embed_documents", "embed_query", "aembed_documents", "aembed_query"),
    DeterministicFakeEmbedding: ("embed_documents", "embed_query"),
}  # fmt: skip
"""The leaves of every class that a suite is run on, beside those that ask the world."""
