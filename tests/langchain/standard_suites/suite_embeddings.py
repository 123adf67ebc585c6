"""The standard suites of embedding models, on OpenAI's client."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_openai import OpenAIEmbeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from agenttape_langchain import tape


class OfOpenAI:
    automatic = True

    @property
    def embeddings_class(self) -> type[Embeddings]:
        return OpenAIEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        # Its own counting of tokens would fetch a vocabulary.
        return {"model": "text-embedding-3-small", "dimensions": 8, "check_embedding_ctx_length": False}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"OPENAI_API_KEY": "a key"}, self.embedding_model_params, {"openai_api_key": "a key"}


class Taped(OfOpenAI):
    """The same, taped, in a session that tapes nothing else."""

    automatic = False

    @pytest.fixture
    def model(self) -> Embeddings:
        return tape(self.embeddings_class(**self.embedding_model_params))


class TestUnit(OfOpenAI, EmbeddingsUnitTests):
    pass


class TestUnitTaped(Taped, EmbeddingsUnitTests):
    pass


class TestIntegration(OfOpenAI, EmbeddingsIntegrationTests):
    pass


class TestIntegrationTaped(Taped, EmbeddingsIntegrationTests):
    pass
