"""Substitute document indexes elsewhere: retrievers that also take documents in.

Imported only once the program has imported `langchain_core.indexing`. An index in memory is part of the program.
"""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.indexing.base import DocumentIndex

from agenttape_core.integration import (
    Family,
    InMemoryClasses,
    Leaf,
    SessionCall,
    begin,
    coroutine,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import STORE_SETTINGS
from agenttape_langchain.requests import MEMORY, RETRIEVAL, method_body

_METHODS = {"upsert": (MEMORY, "items"), "delete": (MEMORY, "ids"), "get": (RETRIEVAL, "ids")}
_NAMES = [f"{prefix}{method}" for method in _METHODS for prefix in ("", "a")]
_IN_MEMORY = InMemoryClasses(("langchain_core.indexing.in_memory.InMemoryDocumentIndex",), dict.fromkeys(_NAMES))


def _runs(index: Any) -> bool:
    return type(index) in _IN_MEMORY


def _cross(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    if _runs(self):
        return None
    boundary, name = _METHODS[method]
    arguments = named_arguments(None, (name,), args, kwargs)
    settings = settings_of(self, STORE_SETTINGS)
    body = functools.partial(method_body, method, arguments, settings)
    return begin(boundary, self, type(self).__name__, lambda _: body(), writes=boundary is MEMORY)


DOCUMENT_INDEXES = Family(
    DocumentIndex,
    {
        f"{prefix}{method}": Leaf(shape, functools.partial(_cross, method))
        for method in _METHODS
        for prefix, shape in (("", plain), ("a", coroutine))
    },
    defaults=frozenset(f"a{method}" for method in _METHODS),
    is_boundary=lambda cls: cls not in _IN_MEMORY,
    is_made_of_parts=_runs,
)
"""Every document index: documents stored and read by id. Its searches work like a retriever's."""
