"""The leaf methods of spans, and those that hide behind a span.

The framework begins no span for leaf methods that have a default in their interface. A call of one is known from the
public method around it: its span has the arguments, and its events the texts and the vectors, or the nodes.
"""

from __future__ import annotations

import functools

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding

from agenttape_core.integration import Family, Leaf
from agenttape_llamaindex._compat import is_decorated, static
from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
from agenttape_llamaindex.llms import LLMS
from agenttape_llamaindex.postprocessors import POSTPROCESSORS
from agenttape_llamaindex.retrievers import RETRIEVERS
from agenttape_llamaindex.tools import FUNCTION_TOOLS, TOOLS

_FAMILIES = (LLMS, EMBEDDINGS, SPARSE_EMBEDDINGS, RETRIEVERS, POSTPROCESSORS, FUNCTION_TOOLS, TOOLS)
_BEHIND: dict[str, tuple[str, ...]] = {
    "aget_query_embedding": ("_aget_query_embedding",),
    "aget_text_embedding": ("_aget_text_embedding",),
    "get_text_embedding_batch": ("_get_text_embeddings",),
    "aget_text_embedding_batch": ("_aget_text_embeddings", "_aget_text_embedding"),
    "aretrieve": ("_aretrieve",),
}
"""Public methods, and the leaf methods that they may call without a span. They call the first that a class has."""


def leaf_of(cls: type, method: str) -> Leaf | None:
    """Return the leaf of a method of a class, if it is a leaf method."""
    found: dict[str, Leaf] = _leaves(cls)
    return found.get(method)


@functools.lru_cache(1024)
def hidden_leaf_of(cls: type, method: str) -> tuple[str, Leaf] | None:
    """Return the name and the leaf of the leaf method behind a public method, if it has no span of its own."""
    if not issubclass(cls, BaseEmbedding | BaseSparseEmbedding | BaseRetriever):
        return None
    leaves = _leaves(cls)
    for name in _BEHIND.get(method, ()):
        if name in leaves:
            return None if is_decorated(static(cls, name)) else (name, leaves[name])
    return None


@functools.lru_cache(1024)
def _leaves(cls: type) -> dict[str, Leaf]:
    family = _family_of(cls)
    return {name: family.leaves[name] for name in family.leaves_of(cls)} if family is not None else {}


def _family_of(cls: type) -> Family | None:
    return next((family for family in _FAMILIES if issubclass(cls, family.base)), None)
