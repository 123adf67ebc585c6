"""Substitute vector stores elsewhere: a read is a retrieval, a write is memory.

A write is recorded and replayed like a read, so a replay needs no store. Only the outermost call of an object counts; a
call that a store makes to its embeddings, or a retriever to its store, is a child of it.

A store in memory is part of the program: it runs on every replay, and the calls that it makes are replayed.
"""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.vectorstores import VectorStore

from agenttape_core.integration import (
    Family,
    InMemoryClasses,
    Leaf,
    SessionCall,
    begin,
    coroutine,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import STORE_SETTINGS
from agenttape_langchain.requests import MEMORY, RETRIEVAL, method_body

READS: dict[str, tuple[str, ...]] = {
    "similarity_search": ("query", "k"),
    "similarity_search_with_score": ("query", "k"),
    "similarity_search_with_relevance_scores": ("query", "k"),
    "similarity_search_by_vector": ("embedding", "k"),
    "similarity_search_with_score_by_vector": ("embedding", "k"),
    "max_marginal_relevance_search": ("query", "k", "fetch_k", "lambda_mult"),
    "max_marginal_relevance_search_by_vector": ("embedding", "k", "fetch_k", "lambda_mult"),
    "search": ("query", "search_type"),
    "get_by_ids": ("ids",),
}
WRITES: dict[str, tuple[str, ...]] = {
    "add_texts": ("texts", "metadatas"),
    "add_documents": ("documents",),
    "delete": ("ids",),
}
"""The methods of the interface, and its names of their positional arguments."""


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

IN_MEMORY = InMemoryClasses(_KNOWN, {name for method in (*READS, *WRITES) for name in (method, f"a{method}")})


def runs(store: Any) -> bool:
    """Return whether a vector store keeps its documents in this process."""
    return type(store) in IN_MEMORY


def _cross(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    if runs(self):
        return None
    boundary, names = (RETRIEVAL, READS[method]) if method in READS else (MEMORY, WRITES[method])
    arguments = named_arguments(getattr(type(self), method, None), names, args, kwargs)
    settings = settings_of(self, STORE_SETTINGS)
    return begin(
        boundary,
        self,
        type(self).__name__,
        lambda _: method_body(method, arguments, settings),
        writes=method in WRITES,
    )


def _leaves() -> dict[str, Leaf]:
    leaves = {}
    for method in (*READS, *WRITES):
        cross = functools.partial(_cross, method)
        leaves[method] = Leaf(plain, cross)
        leaves[f"a{method}"] = Leaf(coroutine, cross)
    return leaves


VECTOR_STORES = Family(
    VectorStore,
    _leaves(),
    defaults=frozenset(name for name in _leaves() if hasattr(VectorStore, name)),
    is_boundary=lambda cls: cls not in IN_MEMORY,
    is_made_of_parts=runs,
)
"""Every vector store. Methods that the interface itself implements count too: they are the calls of the program."""
