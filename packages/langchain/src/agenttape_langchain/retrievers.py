"""Substitute the search of retrievers.

Callbacks, tags and metadata are the framework's own, and happen on every replay.
"""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.retrievers import BaseRetriever

from agenttape_core.integration import (
    SEARCH_SETTINGS,
    Boundary,
    Crossing,
    Family,
    Leaf,
    Session,
    begin,
    coroutine,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_langchain.requests import retrieval_body
from agenttape_langchain.run_tree import position_of

RETRIEVAL = Boundary("retrieval")


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    arguments = named_arguments(getattr(type(self), name), ("query",), args, kwargs)
    query, run_manager = arguments.pop("query", ""), arguments.pop("run_manager", None)
    settings = {**settings_of(self, SEARCH_SETTINGS), **arguments}

    return begin(
        RETRIEVAL,
        self,
        self.get_name(),
        lambda session: recorded_body(session, query, settings),
        lambda session: position_of(session, run_manager),
    )


def recorded_body(session: Session, query: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the request of a search, without its settings if only an observed search was recorded.

    Callbacks receive the query, but no settings. An observed search serves every search for the same query, unless the
    cassette holds one with the same settings.
    """
    body, seen = retrieval_body(query, settings), retrieval_body(query, {})
    if not settings or session.policy.replaces or session.times_recorded(RETRIEVAL, body):
        return body
    return seen if session.times_recorded(RETRIEVAL, seen) else body


RETRIEVERS = Family(
    BaseRetriever,
    {
        "_get_relevant_documents": Leaf(plain, functools.partial(_cross, "_get_relevant_documents")),
        "_aget_relevant_documents": Leaf(coroutine, functools.partial(_cross, "_aget_relevant_documents")),
    },
)
"""Every retriever."""
