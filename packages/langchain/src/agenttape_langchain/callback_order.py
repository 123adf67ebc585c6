"""Keep the order of callback handlers and tags when LangChain merges two callback managers.

`BaseCallbackManager.merge` makes sets of them, so handlers come in the order of their addresses in memory, and tags in
that of their hashes: another one in each run. A handler of LangGraph draws ids of messages when a node ends, before or
after the run tree notes that end, so they would be drawn by lot. Here, the first manager's come first, then the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from langchain_core.callbacks import (
    AsyncCallbackManagerForChainGroup,
    BaseCallbackManager,
    CallbackManagerForChainGroup,
)

from agenttape_core.integration import current_session

MERGING = (BaseCallbackManager, CallbackManagerForChainGroup, AsyncCallbackManagerForChainGroup)
"""The classes that have a `merge` of their own."""

_LISTS = ("handlers", "inheritable_handlers", "tags", "inheritable_tags")
ItemT = TypeVar("ItemT", bound=Hashable)


def keeping_order(merge: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap a `merge` of callback managers: within a session, what it merges keeps its order."""

    @functools.wraps(merge)
    def merged(self: BaseCallbackManager, other: BaseCallbackManager) -> BaseCallbackManager:
        manager: BaseCallbackManager = merge(self, other)
        if current_session() is not None:
            for name in _LISTS:
                setattr(manager, name, _ordered(getattr(manager, name), getattr(self, name) + getattr(other, name)))
        return manager

    return merged


def _ordered(items: list[ItemT], order: list[ItemT]) -> list[ItemT]:
    """Return items in an order; those that it does not have stay behind, as they are."""
    kept = set(items)
    return list(dict.fromkeys([*(item for item in order if item in kept), *items]))
