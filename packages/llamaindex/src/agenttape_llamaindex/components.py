"""Shared by retrievers, rerankers, stores and tools: which of them are boundaries, and the shapes of their methods.

The components of LlamaIndex's core that are made of others run, and the calls they make are recorded. So are classes
that keep their data in this process. Any other class that implements such an interface itself is a boundary.

The framework may begin a span for their methods. The span belongs to the method, whether the call is replayed or not:
so the function inside of it is substituted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from agenttape_core.integration import Cross, InMemoryClasses, Leaf
from agenttape_core.integration.shapes import Shape
from agenttape_llamaindex._compat import within_decorators

_CORE = "llama_index.core"
_WORKFLOWS = ("workflows", "llama_index_instrumentation")
_REACHING = frozenset({"SentenceTransformerRerank", "NERPIINodePostprocessor", "OnDemandLoaderTool"})
"""Components of the core that run their own model, or read from any place that they are given."""
_IN_MEMORY = InMemoryClasses(
    (
        "llama_index.retrievers.bm25.base.BM25Retriever",
        "llama_index.vector_stores.faiss.base.FaissVectorStore",
        "llama_index.vector_stores.faiss.map_store.FaissMapVectorStore",
    ),
    ("_retrieve", "_aretrieve", "add", "async_add", "delete", "adelete", "query", "aquery"),
)
"""Classes of LlamaIndex's other packages that keep their data in this process."""


def is_boundary(cls: type) -> bool:
    """Return whether a call of a class is recorded as a whole."""
    if cls in _IN_MEMORY:
        return False
    nearest = _nearest_of_core(cls)
    return nearest is None or inspect.isabstract(nearest) or nearest.__name__ in _REACHING


def is_boundary_but(*interfaces: type) -> Callable[[type], bool]:
    """Return `is_boundary` for interfaces that do not count as abstract to Python."""

    def boundary(cls: type) -> bool:
        return (
            cls not in interfaces
            and cls not in _IN_MEMORY
            and (_nearest_of_core(cls) in interfaces or is_boundary(cls))
        )

    return boundary


def _nearest_of_core(cls: type) -> type | None:
    return next((parent for parent in cls.__mro__ if _is_of_core(parent.__module__)), None)


def is_function_of_core(function: Callable[..., Any]) -> bool:
    """Return whether a function is LlamaIndex's own: a hand-off, the filling in of an object, a method of an engine."""
    return _is_of_core(getattr(inspect.unwrap(function), "__module__", None) or "")


def _is_of_core(module: str) -> bool:
    return f"{module}.".startswith(f"{_CORE}.") or module.partition(".")[0] in _WORKFLOWS


def spanned(shape: Shape, cross: Cross) -> Leaf:
    """Return the leaf that a method is inside of its span."""
    return Leaf(shape, cross, within=within_decorators)
