"""Substitute embedding models.

A model that delegates to another one (a cache, a wrapper) is recorded as one call, its own: a replay needs no answer of
the other.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from langchain_core.embeddings import Embeddings

from agenttape_core.integration import (
    EMBEDDING_SETTINGS,
    Boundary,
    Crossing,
    Family,
    Leaf,
    Session,
    begin,
    coroutine,
    executing,
    leaf_call,
    model_of,
    named_arguments,
    plain,
    public_fields,
    settings_of,
    warn_unless_identified,
)
from agenttape_core.integration.codecs import packed
from agenttape_langchain.requests import embedding_body

EMBEDDING = Boundary("embeddings")


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    outer = executing()
    if outer is not None and outer.boundary is EMBEDDING:
        return None
    arguments = named_arguments(getattr(type(self), name), (_ARGUMENTS[name],), args, kwargs)
    texts = arguments.pop(_ARGUMENTS[name], "")

    def body(session: Session) -> dict[str, Any]:
        settings = _settings(self)
        warn_unless_identified(session, EMBEDDING.kind, self, settings, Embeddings)
        return embedding_body(texts, {**settings, **arguments})

    return begin(EMBEDDING, self, type(self).__name__, body)


def _settings(embeddings: Any) -> Mapping[str, Any]:
    """Return the settings that are sent along with the texts, as far as they are plain attributes of the object."""
    settings = {**model_of(embeddings), **settings_of(embeddings, EMBEDDING_SETTINGS)}
    return settings if "model" in settings else {**public_fields(embeddings, Embeddings), **settings}


_ARGUMENTS = {
    "embed_documents": "texts",
    "embed_query": "text",
    "aembed_documents": "texts",
    "aembed_query": "text",
}

EMBEDDINGS = Family(
    Embeddings,
    {
        name: Leaf(
            coroutine if name.startswith("a") else plain, functools.partial(_cross, name), leaf_call(pack=packed)
        )
        for name in _ARGUMENTS
    },
    defaults=frozenset({"aembed_documents", "aembed_query"}),
)
"""Every embedding model."""
