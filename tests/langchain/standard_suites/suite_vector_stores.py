"""The standard suite of vector stores, on the one of langchain-core."""

from __future__ import annotations

import pytest
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from agenttape_langchain import tape


class TestVectorStore(VectorStoreIntegrationTests):
    ambient = True

    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return InMemoryVectorStore(embedding=self.get_embeddings())


class TestVectorStoreTaped(VectorStoreIntegrationTests):
    """The same, taped, in a session that tapes nothing else."""

    ambient = False

    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return tape(InMemoryVectorStore(embedding=self.get_embeddings()))
