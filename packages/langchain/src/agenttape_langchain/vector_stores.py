"""Substitute vector stores elsewhere: a read is a retrieval, a write is memory.

A write is recorded and replayed like a read, so a replay needs no store. Only the outermost call of an object counts; a
call that a store makes to its embeddings, or a retriever to its store, is a child of it.

A store in memory is part of the program: it runs on every replay, and the calls that it makes are replayed.
"""

from __future__ import annotations

from typing import Any

from langchain_core.vectorstores import VectorStore

from agenttape_core.integration import Family, InMemoryClasses
from agenttape_langchain.requests import RETRIEVAL, Method, Methods, forms_of, leaves_of

METHODS: Methods = {
    "similarity_search": Method(("query", "k"), RETRIEVAL),
    "similarity_search_with_score": Method(("query", "k"), RETRIEVAL),
    "similarity_search_with_relevance_scores": Method(("query", "k"), RETRIEVAL),
    "similarity_search_by_vector": Method(("embedding", "k"), RETRIEVAL),
    "similarity_search_with_score_by_vector": Method(("embedding", "k"), RETRIEVAL),
    "max_marginal_relevance_search": Method(("query", "k", "fetch_k", "lambda_mult"), RETRIEVAL),
    "max_marginal_relevance_search_by_vector": Method(("embedding", "k", "fetch_k", "lambda_mult"), RETRIEVAL),
    "search": Method(("query", "search_type"), RETRIEVAL),
    "get_by_ids": Method(("ids",), RETRIEVAL),
    "add_texts": Method(("texts", "metadatas"), writes=True),
    "add_documents": Method(("documents",), writes=True),
    "delete": Method(("ids",), writes=True),
}

_KNOWN = (
    "langchain_core.vectorstores.in_memory.InMemoryVectorStore",
    "langchain_community.vectorstores.annoy.Annoy",
    "langchain_community.vectorstores.docarray.in_memory.DocArrayInMemorySearch",
    "langchain_community.vectorstores.faiss.FAISS",
    "langchain_community.vectorstores.scann.ScaNN",
    "langchain_community.vectorstores.sklearn.SKLearnVectorStore",
    "langchain_community.vectorstores.usearch.USearch",
)
"""The classes that keep their vectors in the process, wherever their documents came from."""

IN_MEMORY = InMemoryClasses(_KNOWN, forms_of(METHODS))


def runs(store: Any) -> bool:
    """Return whether a vector store keeps its documents in this process."""
    return type(store) in IN_MEMORY


VECTOR_STORES = Family(
    VectorStore,
    leaves_of(METHODS, runs),
    defaults=frozenset(name for name in forms_of(METHODS) if hasattr(VectorStore, name)),
    is_boundary=lambda cls: cls not in IN_MEMORY,
    is_made_of_parts=runs,
)
"""Every vector store. Methods that the interface itself implements count too: they are the calls of the program."""
