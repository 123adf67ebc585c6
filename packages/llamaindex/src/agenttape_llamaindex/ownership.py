"""Whose a part is, which says whether an ambient session records it as a whole.

One rule for all parts: what LlamaIndex's core makes of other parts runs, in the recording and on every replay, and what
it calls is recorded. What implements an interface itself (a retriever of a service, a reranker of a provider, the
user's own) is a boundary. Whoever derives from a part of the core's has such a part.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_CORE = "llama_index.core"
_WORKFLOWS = ("workflows", "llama_index_instrumentation")
_REACHING = frozenset({"SentenceTransformerRerank", "NERPIINodePostprocessor", "OnDemandLoaderTool"})
"""Parts of the core that run a model of their own, or read from wherever they are told to."""


def is_boundary(cls: type) -> bool:
    """Whether what a class does is recorded as a whole."""
    nearest = next((parent for parent in cls.__mro__ if is_of_core(parent.__module__)), None)
    return nearest is None or inspect.isabstract(nearest) or nearest.__name__ in _REACHING


def is_boundary_but(*interfaces: type) -> Callable[[type], bool]:
    """Return `is_boundary` for interfaces that are not abstract, as Python sees it."""

    def boundary(cls: type) -> bool:
        nearest = next((parent for parent in cls.__mro__ if is_of_core(parent.__module__)), None)
        return cls not in interfaces and (nearest in interfaces or is_boundary(cls))

    return boundary


def is_function_of_core(function: Callable[..., Any]) -> bool:
    """Whether a function is LlamaIndex's own: a hand-off, what fills in an object, a method of an engine."""
    return is_of_core(getattr(inspect.unwrap(function), "__module__", None) or "")


def is_of_core(module: str) -> bool:
    """Whether a module is LlamaIndex's own."""
    return f"{module}.".startswith(f"{_CORE}.") or module.partition(".")[0] in _WORKFLOWS
