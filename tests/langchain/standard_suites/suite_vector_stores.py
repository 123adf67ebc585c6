"""The standard suite of vector stores: on one elsewhere, and on the one in memory, which runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from agenttape_langchain import tape

from .originals import RemoteVectors

if TYPE_CHECKING:
    from langchain_core.vectorstores import VectorStore


class TestVectorStore(VectorStoreIntegrationTests):
    automatic = True

    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return RemoteVectors(self.get_embeddings())


class TestVectorStoreTaped(VectorStoreIntegrationTests):
    """The same, taped, in a session that tapes nothing else."""

    automatic = False

    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return tape(RemoteVectors(self.get_embeddings()))


class TestVectorStoreInMemory(VectorStoreIntegrationTests):
    """The one of langchain-core, taped, in a session that tapes nothing else: only its embeddings are replayed."""

    automatic = False

    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return tape(InMemoryVectorStore(embedding=self.get_embeddings()))
