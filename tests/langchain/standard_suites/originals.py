"""The objects that the suites tape, and their methods that reach the world."""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryBaseStore
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import InMemoryVectorStore
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


ORIGINALS: dict[type[Any], tuple[str, ...]] = {
    ChatOpenAI: ("_generate", "_agenerate", "_stream", "_astream"),
    OpenAIEmbeddings: ("embed_documents", "embed_query", "aembed_documents", "aembed_query"),
    DeterministicFakeEmbedding: ("embed_documents", "embed_query"),
    InMemoryVectorStore: (
        "add_documents", "aadd_documents", "delete", "adelete", "get_by_ids", "aget_by_ids",
        "similarity_search", "asimilarity_search", "similarity_search_with_score", "similarity_search_by_vector",
        "max_marginal_relevance_search", "max_marginal_relevance_search_by_vector",
    ),
    InMemoryBaseStore: (
        "mget", "amget", "mset", "amset", "mdelete", "amdelete", "yield_keys", "ayield_keys",
    ),
}  # fmt: skip
"""The leaves of every class that a suite is run on, beside those that ask the world."""
