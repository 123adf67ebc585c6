"""Substitute the search of retrievers. Events, and the recursion into found objects, are the framework's own."""

from __future__ import annotations

import functools
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import QueryBundle

from agenttape_core.integration import (
    Boundary,
    Family,
    SessionCall,
    begin,
    coroutine,
    model_of,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import SEARCH_SETTINGS
from agenttape_llamaindex._compat import static
from agenttape_llamaindex.components import is_boundary, spanned
from agenttape_llamaindex.requests import method_body, retrieval_body

RETRIEVAL = Boundary("retrieval")
"""A search of a store, whose code is its provider's."""
SEARCH = Boundary("retrieval", is_program=True)
"""A search by code of the program: a replay steps into it where it only asked other boundaries."""

_SETTINGS = (*SEARCH_SETTINGS, *(f"_{name}" for name in ("similarity_top_k", "sparse_top_k", "hybrid_top_k", "alpha")))


def search_settings(value: Any) -> dict[str, Any]:
    """Return the search settings of an object, under public names."""
    found = settings_of(value, (*_SETTINGS, "similarity_top_k", "choice_batch_size"))
    return {name.removeprefix("_"): setting for name, setting in found.items()}


def _cross(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    arguments = named_arguments(static(type(self), method), ("query_bundle",), args, kwargs)
    query = arguments.pop("query_bundle", None)
    settings = {**search_settings(self), **arguments}
    return begin(SEARCH, self, type(self).__name__, lambda _: retrieval_body(query_of(query), settings))


def query_of(query: Any) -> Any:
    """Return a query as plain data: its text, or its parts if it has more."""
    if not isinstance(query, QueryBundle):
        return query
    more = {
        "image_path": query.image_path,
        "embedding_strings": query.custom_embedding_strs,
        "embedding": query.embedding,
    }
    more = {name: part for name, part in more.items() if part is not None}
    return {"text": query.query_str, **more} if more else query.query_str


RETRIEVERS = Family(
    BaseRetriever,
    {
        "_retrieve": spanned(plain, functools.partial(_cross, "_retrieve")),
        "_aretrieve": spanned(coroutine, functools.partial(_cross, "_aretrieve")),
    },
    is_boundary=is_boundary,
)
"""Every retriever; LlamaIndex's own classes only if they are taped by hand."""


POSTPROCESS = "postprocess_nodes"
"""The one name of both methods of postprocessors."""


def _cross_postprocessor(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    given = named_arguments(static(type(self), method), ("nodes", "query_bundle"), args, kwargs)
    arguments = {"nodes": given.pop("nodes", None), "query": query_of(given.pop("query_bundle", None)), **given}
    settings = {**model_of(self), **search_settings(self)}
    return begin(SEARCH, self, type(self).__name__, lambda _: method_body(POSTPROCESS, arguments, settings))


POSTPROCESSORS = Family(
    BaseNodePostprocessor,
    {
        "_postprocess_nodes": spanned(plain, functools.partial(_cross_postprocessor, "_postprocess_nodes")),
        "_apostprocess_nodes": spanned(coroutine, functools.partial(_cross_postprocessor, "_apostprocess_nodes")),
    },
    is_boundary=is_boundary,
)
"""Every node postprocessor; LlamaIndex's own classes only if they are taped by hand."""
