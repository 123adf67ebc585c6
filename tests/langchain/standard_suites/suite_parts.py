"""The standard suites of embeddings, retrievers, stores, tools and caches: automatic, and taped by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import BaseCache
from langchain_core.embeddings import Embeddings
from langchain_core.stores import BaseStore, InMemoryByteStore
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_openai import OpenAIEmbeddings
from langchain_tests.integration_tests import (
    AsyncCacheTestSuite,
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    SyncCacheTestSuite,
    ToolsIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests, ToolsUnitTests

from agenttape_langchain import TapeCache, tape

from .originals import Asking, RemoteItems, RemoteVectors, Shelves, World


class Automatic:
    """The session tapes the part."""

    automatic = True


class Taped:
    """The part is taped, in a session that tapes nothing else."""

    automatic = False


# -- embedding models ----------------------------------------------------------------------------------------------


class OfOpenAI:
    embeddings_class = OpenAIEmbeddings
    # Its own counting of tokens would fetch a vocabulary.
    embedding_model_params = {  # noqa: RUF012 - a property there
        "model": "text-embedding-3-small",
        "dimensions": 8,
        "check_embedding_ctx_length": False,
    }

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"OPENAI_API_KEY": "a key"}, self.embedding_model_params, {"openai_api_key": "a key"}


class OfOpenAITaped(Taped, OfOpenAI):
    @pytest.fixture
    def model(self) -> Embeddings:
        return tape(self.embeddings_class(**self.embedding_model_params))


class TestEmbeddingsUnit(Automatic, OfOpenAI, EmbeddingsUnitTests):
    pass


class TestEmbeddingsUnitTaped(OfOpenAITaped, EmbeddingsUnitTests):
    pass


class TestEmbeddingsIntegration(Automatic, OfOpenAI, EmbeddingsIntegrationTests):
    pass


class TestEmbeddingsIntegrationTaped(OfOpenAITaped, EmbeddingsIntegrationTests):
    pass


# -- retrievers ----------------------------------------------------------------------------------------------------


class TestRetriever(Automatic, RetrieversIntegrationTests):
    retriever_constructor = Shelves
    retriever_query_example = "a book"


class TestRetrieverTaped(Taped, RetrieversIntegrationTests):
    retriever_query_example = "a book"

    @property
    def retriever_constructor(self) -> Any:
        return lambda **params: tape(Shelves(**params))


# -- vector stores: one elsewhere, and the one in memory, which runs -----------------------------------------------


class TestVectorStore(Automatic, VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return RemoteVectors(self.get_embeddings())


class TestVectorStoreTaped(Taped, VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return tape(RemoteVectors(self.get_embeddings()))


class TestVectorStoreInMemory(Taped, VectorStoreIntegrationTests):
    """Only its embeddings are replayed."""

    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return tape(InMemoryVectorStore(embedding=self.get_embeddings()))


# -- key-value stores ----------------------------------------------------------------------------------------------


class OfBytes(Automatic):
    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return RemoteItems()

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return b"foo", b"b\x00r", "bücher".encode()


class OfObjects(Taped):
    """Values of any kind."""

    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return tape(RemoteItems())

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return "foo", {"deep": [1, 2.5, None]}, ("a", "tuple")


class TestBytes(OfBytes, BaseStoreSyncTests[bytes]):
    pass


class TestBytesAsync(OfBytes, BaseStoreAsyncTests[bytes]):
    pass


class TestObjectsTaped(OfObjects, BaseStoreSyncTests[Any]):
    pass


class TestObjectsTapedAsync(OfObjects, BaseStoreAsyncTests[Any]):
    pass


class TestStoreInMemory(OfBytes, BaseStoreSyncTests[bytes]):
    """The one of langchain-core, which runs."""

    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return InMemoryByteStore()


# -- tools: of a function, of a class, with an artifact ------------------------------------------------------------


def look_up(question: str) -> str:
    """Look something up."""
    return World.ask(question)


def look_up_with_source(question: str) -> tuple[str, dict[str, str]]:
    """Look something up, and say where."""
    return World.ask(question), {"source": "the world"}


class OfFunction:
    tool_invoke_params_example = {"question": "who are you?"}  # noqa: RUF012 - a property there
    tool_constructor: Any = StructuredTool.from_function(look_up)


class OfClass(OfFunction):
    tool_constructor = Asking
    tool_constructor_params = {"politeness": 2}  # noqa: RUF012 - a property there


class OfArtifact(OfFunction):
    tool_constructor = StructuredTool.from_function(look_up_with_source, response_format="content_and_artifact")


class ToolTaped(Taped):
    @pytest.fixture
    def tool(self) -> BaseTool:
        made = self.tool_constructor
        return tape(made if isinstance(made, BaseTool) else made(**self.tool_constructor_params))


class TestToolUnit(Automatic, OfClass, ToolsUnitTests):
    pass


class TestToolUnitTaped(ToolTaped, OfClass, ToolsUnitTests):
    pass


class TestFunction(Automatic, OfFunction, ToolsIntegrationTests):
    pass


class TestFunctionTaped(ToolTaped, OfFunction, ToolsIntegrationTests):
    pass


class TestClass(Automatic, OfClass, ToolsIntegrationTests):
    pass


class TestClassTaped(ToolTaped, OfClass, ToolsIntegrationTests):
    pass


class TestArtifact(Automatic, OfArtifact, ToolsIntegrationTests):
    pass


class TestArtifactTaped(ToolTaped, OfArtifact, ToolsIntegrationTests):
    pass


# -- caches: `TapeCache` as it records, and as it adds ---------------------------------------------------------------


class OfTape:
    automatic = None  # a cache needs no session

    @pytest.fixture
    def cache(self, run: str, cassette: Path) -> Iterator[BaseCache]:
        # The suites look up what is not there: in mode `replay` that is a miss.
        with TapeCache(cassette, mode="all" if run == "recording" else "new_episodes") as cache:
            yield cache


class TestCache(OfTape, SyncCacheTestSuite):
    pass


class TestAsyncCache(OfTape, AsyncCacheTestSuite):
    pass
