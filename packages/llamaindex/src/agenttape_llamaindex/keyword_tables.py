"""The nodes that LlamaIndex's keyword tables find, in one order, whatever the hash seed of the process.

A table keeps the nodes of a keyword in a set, and keywords are extracted as a set. Nodes with equally many keywords of
a query come in the order of both, and only the first of them get into the prompt.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from agenttape_core.integration import current_session


def in_order(retrieve: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return the method of a retriever with the nodes of a keyword in the order of their ids, within sessions."""

    @functools.wraps(retrieve)
    def ordered(retriever: Any, *args: Any, **kwargs: Any) -> list[Any]:
        if current_session() is None:
            return retrieve(retriever, *args, **kwargs)
        twin = copy.copy(retriever)
        twin._get_keywords = lambda query: sorted(retriever._get_keywords(query))
        twin._index_struct = _InOrder(retriever._index_struct)
        return retrieve(twin, *args, **kwargs)

    return ordered


class _InOrder:
    """A table of keywords, as a retriever reads it."""

    def __init__(self, table: Any) -> None:
        self.keywords = table.keywords
        self.table = {keyword: sorted(nodes) for keyword, nodes in table.table.items()}
