"""Substitute the search of retrievers.

Callbacks, tags and metadata are the framework's own, and happen on every replay.

A retriever that searches in memory, directly or in a vector store, is part of the program and runs. Its search is
replayed all the same where callbacks have observed it: they do not see the embeddings that it needs.
"""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.retrievers import BaseRetriever

from agenttape_core.integration import (
    Family,
    InMemoryClasses,
    Leaf,
    Session,
    SessionCall,
    begin,
    coroutine,
    current_session,
    named_arguments,
    plain,
    settings_of,
    times_left,
    times_recorded,
)
from agenttape_core.integration.object_settings import SEARCH_SETTINGS
from agenttape_langchain.requests import SEARCH, retrieval_body
from agenttape_langchain.session_tree import position_of

_LEAVES = {"_get_relevant_documents": plain, "_aget_relevant_documents": coroutine}

_KNOWN = (
    "langchain_community.retrievers.bm25.BM25Retriever",
    "langchain_community.retrievers.knn.KNNRetriever",
    "langchain_community.retrievers.svm.SVMRetriever",
    "langchain_community.retrievers.tfidf.TFIDFRetriever",
    "langchain_core.indexing.in_memory.InMemoryDocumentIndex",
)
"""The classes that search data held in the process."""

_IN_MEMORY = InMemoryClasses(_KNOWN, _LEAVES)
_OF_STORES = InMemoryClasses(("langchain_core.vectorstores.base.VectorStoreRetriever",), _LEAVES)
"""The classes whose search uses a vector store."""


def runs(retriever: Any) -> bool:
    """Return whether a retriever searches data held in this process."""
    cls = type(retriever)
    return cls in _IN_MEMORY or (cls in _OF_STORES and _is_in_process(retriever.vectorstore))


def _is_in_process(store: Any) -> bool:
    from agenttape_langchain.vector_stores import (
        runs as store_runs,  # LangChain's module of stores imports its module of retrievers
    )

    return store_runs(store)


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    arguments = named_arguments(getattr(type(self), name), ("query",), args, kwargs)
    query, run_manager = arguments.pop("query", ""), arguments.pop("run_manager", None)
    settings = {**settings_of(self, SEARCH_SETTINGS), **arguments}
    if runs(self) and not _is_observed(self.get_name(), query, settings):
        return None
    return begin(
        SEARCH,
        self,
        self.get_name(),
        lambda session: recorded_body(session, query, settings),
        lambda session: position_of(session, run_manager),
    )


def _is_observed(name: str, query: str, settings: dict[str, Any]) -> bool:
    """Return whether the cassette holds the search itself, which only an observation records of what runs."""
    session = current_session()
    if session is None or not session.policy.may_replay(SEARCH.kind, name):
        return False
    return times_left(session, SEARCH, recorded_body(session, query, settings)) > 0


def recorded_body(session: Session, query: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a search, without its settings if only an observed search was recorded.

    Callbacks receive the query, but no settings. An observed search serves every search for the same query, unless the
    cassette holds one with the same settings.
    """
    body, seen = retrieval_body(query, settings), retrieval_body(query, {})
    if not settings or session.policy.replaces or times_recorded(session, SEARCH, body):
        return body
    return seen if times_recorded(session, SEARCH, seen) else body


RETRIEVERS = Family(
    BaseRetriever,
    {name: Leaf(shape, functools.partial(_cross, name)) for name, shape in _LEAVES.items()},
    is_made_of_parts=runs,
)
"""Every retriever."""
