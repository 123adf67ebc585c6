"""Substitute document indexes elsewhere: retrievers that also take documents in.

Imported only once the program has imported `langchain_core.indexing`. An index in memory is part of the program.
"""

from __future__ import annotations

from typing import Any

from langchain_core.indexing.base import DocumentIndex

from agenttape_core.integration import Family, InMemoryClasses
from agenttape_langchain.requests import RETRIEVAL, Method, Methods, forms_of, leaves_of

_METHODS: Methods = {
    "upsert": Method(("items",), writes=True),
    "delete": Method(("ids",), writes=True),
    "get": Method(("ids",), RETRIEVAL),
}
_IN_MEMORY = InMemoryClasses(("langchain_core.indexing.in_memory.InMemoryDocumentIndex",), forms_of(_METHODS))


def _runs(index: Any) -> bool:
    return type(index) in _IN_MEMORY


DOCUMENT_INDEXES = Family(
    DocumentIndex,
    leaves_of(_METHODS, _runs),
    defaults=frozenset(f"a{method}" for method in _METHODS),
    is_boundary=lambda cls: cls not in _IN_MEMORY,
    is_made_of_parts=_runs,
)
"""Every document index: documents stored and read by id. Its searches work like a retriever's."""
