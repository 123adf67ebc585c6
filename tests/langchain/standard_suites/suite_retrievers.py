"""The standard suite of retrievers."""

from __future__ import annotations

from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from agenttape_langchain import tape

from .originals import Shelves


class TestRetriever(RetrieversIntegrationTests):
    automatic = True

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return Shelves

    @property
    def retriever_query_example(self) -> str:
        return "a book"


class TestRetrieverTaped(RetrieversIntegrationTests):
    """The same, taped, in a session that tapes nothing else."""

    automatic = False

    @property
    def retriever_constructor(self) -> Any:
        return lambda **params: tape(Shelves(**params))

    @property
    def retriever_query_example(self) -> str:
        return "a book"
