"""Substitute embedding models.

A model that delegates to another one (a cache, a wrapper) is recorded as one call, its own: a replay needs no answer of
the other. A class of the user's may ask other boundaries first, such as a chat model for a text to embed. A replay
steps into such a call, as into a retriever, so the embedding model behind it is recorded as well.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from langchain_core.embeddings import Embeddings

from agenttape_core.integration import (
    Boundary,
    Family,
    Leaf,
    Session,
    SessionCall,
    begin,
    coroutine,
    leaf_call,
    model_of,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.codecs import packed
from agenttape_core.integration.leaves import is_part_of_embedding
from agenttape_core.integration.object_settings import EMBEDDING_SETTINGS, public_fields, warn_unless_identified
from agenttape_langchain.requests import embedding_body

EMBEDDING = Boundary("embeddings")
PROGRAM = Boundary("embeddings", is_program=True)
"""A model of a user's class, which may be made of other boundaries: a replay steps into it if it only asked those."""


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    if is_part_of_embedding(self, EMBEDDING):
        return None
    arguments = named_arguments(getattr(type(self), name), (_ARGUMENTS[name],), args, kwargs)
    texts = arguments.pop(_ARGUMENTS[name], "")

    def body(session: Session) -> dict[str, Any]:
        settings = _settings(self)
        warn_unless_identified(session, EMBEDDING.kind, self, settings, Embeddings)
        return embedding_body(texts, {**settings, **arguments})

    return begin(PROGRAM if _is_program(self.__class__) else EMBEDDING, self, type(self).__name__, body)


@functools.lru_cache(256)
def _is_program(cls: type) -> bool:
    """Return whether a class is a user's: it derives from the interface itself, and is in no package of LangChain."""
    return not any(base.__module__.startswith("langchain") for base in cls.__mro__ if base is not Embeddings)


def _settings(embeddings: Any) -> Mapping[str, Any]:
    """Return the settings that are sent along with the texts, as far as they're plain attributes of the object."""
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
