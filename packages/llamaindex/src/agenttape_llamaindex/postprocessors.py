"""Substitute node postprocessors: rerankers, filters, and those that shorten nodes."""

from __future__ import annotations

import functools
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor

from agenttape_core.integration import Family, SessionCall, begin, coroutine, model_of, named_arguments, plain
from agenttape_llamaindex._compat import static
from agenttape_llamaindex.components import is_boundary, spanned
from agenttape_llamaindex.requests import method_body
from agenttape_llamaindex.retrievers import SEARCH, query_of, search_settings

POSTPROCESS = "postprocess_nodes"
"""The one name of both methods of postprocessors."""


def _cross(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    given = named_arguments(static(type(self), method), ("nodes", "query_bundle"), args, kwargs)
    arguments = {"nodes": given.pop("nodes", None), "query": query_of(given.pop("query_bundle", None)), **given}
    settings = {**model_of(self), **search_settings(self)}
    return begin(SEARCH, self, type(self).__name__, lambda _: method_body(POSTPROCESS, arguments, settings))


POSTPROCESSORS = Family(
    BaseNodePostprocessor,
    {
        "_postprocess_nodes": spanned(plain, functools.partial(_cross, "_postprocess_nodes")),
        "_apostprocess_nodes": spanned(coroutine, functools.partial(_cross, "_apostprocess_nodes")),
    },
    is_boundary=is_boundary,
)
"""Every node postprocessor; LlamaIndex's own classes only if they are taped by hand."""
