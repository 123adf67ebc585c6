"""Keep the order in which documents were indexed, by which LangChain finds those that are to be deleted.

`index` deletes what was last indexed before it began. On a clock that stands still nothing was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agenttape_core.integration import PatchedOnImport, current_session

_LATEST = "_agenttape_latest"
_TICK = 1e-6
"""Seconds between two readings at one moment: a float holds no much shorter time since the epoch."""


def _ascending(get_time: Callable[[Any], float]) -> Callable[[Any], float]:
    """Let each reading of a record manager be later than the one before it."""

    @functools.wraps(get_time)
    def ascending(self: Any) -> float:
        now = get_time(self)
        if current_session() is not None:
            now = vars(self)[_LATEST] = max(now, vars(self).get(_LATEST, 0.0) + _TICK)
        return now

    return ascending


record_managers_in_order = PatchedOnImport("langchain_core.indexing.base", "InMemoryRecordManager.get_time", _ascending)
"""While inside, readings of LangChain's record manager in memory are in order."""
