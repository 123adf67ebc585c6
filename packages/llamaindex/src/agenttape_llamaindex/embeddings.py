"""Substitute embedding models: of texts, of images, and sparse ones.

Spans, events, the cache and the rate limiter of an embedding model are the framework's own, and happen on every replay.
A model that embeds by another one is recorded as one call, its own: its answer needs no other recording.

A class of the user's may ask other boundaries first, such as an LLM for a text to embed. A replay steps into such a
call, as into a retriever, so the embedding model behind it is recorded as well.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding
from llama_index.core.embeddings.multi_modal_base import MultiModalEmbedding

from agenttape_core.integration import (
    Boundary,
    Family,
    Leaf,
    Position,
    Session,
    SessionCall,
    begin,
    coroutine,
    model_of,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.codecs import packed
from agenttape_core.integration.leaves import is_part_of_embedding
from agenttape_core.integration.object_settings import EMBEDDING_SETTINGS, public_fields, warn_unless_identified
from agenttape_llamaindex._compat import within_decorators
from agenttape_llamaindex.requests import embedding_body, image_embedding_body
from agenttape_llamaindex.run_tree import own_span
from agenttape_llamaindex.shapes import file_call

EMBEDDING = Boundary("embeddings")
PROGRAM = Boundary("embeddings", is_program=True)
"""A model of a user's class, which may be made of other boundaries: a replay steps into it if it only asked those."""

_TEXTS = {
    "_get_query_embedding": "query",
    "_get_text_embedding": "text",
    "_get_text_embeddings": "texts",
    "_aget_query_embedding": "query",
    "_aget_text_embedding": "text",
    "_aget_text_embeddings": "texts",
}
_IMAGES = {
    "_get_image_embedding": "img_file_path",
    "_get_image_embeddings": "img_file_paths",
    "_aget_image_embedding": "img_file_path",
    "_aget_image_embeddings": "img_file_paths",
}
_ARGUMENTS = {**_TEXTS, **_IMAGES}
_INTERFACES = frozenset(BaseEmbedding.__mro__) | frozenset(BaseSparseEmbedding.__mro__)
_SINGLE = frozenset({"text", "img_file_path"})
"""The arguments of calls that return one vector, recorded as a list of one: a batch of one is the same request."""


def _cross(name: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    if is_part_of_embedding(self, EMBEDDING):
        return None
    argument = _ARGUMENTS[name]
    given = named_arguments(getattr(type(self), name), (argument,), args, kwargs)
    what = given.pop(argument, "")
    make = image_embedding_body if name in _IMAGES else embedding_body
    settings = embedding_settings(self)

    def place(session: Session) -> Position | None:
        return own_span(session, self, name)

    body = [what] if argument in _SINGLE else what

    def request(session: Session) -> dict[str, Any]:
        warn_unless_identified(session, EMBEDDING.kind, self, settings, BaseEmbedding)
        return make(body, {**settings, **given})

    return begin(PROGRAM if _is_program(self.__class__) else EMBEDDING, self, type(self).__name__, request, place)


@functools.lru_cache(256)
def _is_program(cls: type) -> bool:
    """Return whether a class is a user's: it derives from the interface itself, and is in no package of LlamaIndex."""
    return not any(base.__module__.startswith("llama_index.") for base in cls.__mro__ if base not in _INTERFACES)


def embedding_settings(embedding: Any) -> Mapping[str, Any]:
    """Return the settings that the provider gets together with the texts, if the object has them as attributes."""
    model = {key: name for key, name in model_of(embedding).items() if name != "unknown"}
    sparse = {"sparse": True} if isinstance(embedding, BaseSparseEmbedding) else {}
    others = {} if model else public_fields(embedding, BaseEmbedding)
    return {**others, **model, **sparse, **settings_of(embedding, EMBEDDING_SETTINGS)}


def _leaf(name: str) -> Leaf:
    if _ARGUMENTS[name] in _SINGLE:
        describe = file_call(pack=lambda vector: [packed(vector)], unpack=lambda vectors: vectors[0])
    else:
        describe = file_call(pack=packed)
    shape = coroutine if name.startswith("_a") else plain
    return Leaf(shape, functools.partial(_cross, name), describe, within=within_decorators)


EMBEDDINGS = Family(BaseEmbedding, {name: _leaf(name) for name in _ARGUMENTS}, delegating=(MultiModalEmbedding,))
"""Every embedding model."""
SPARSE_EMBEDDINGS = Family(BaseSparseEmbedding, {name: _leaf(name) for name in _TEXTS})
"""Every sparse embedding model."""
