"""A boundary crossing in progress: served from the cassette, executed and recorded, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agenttape_core.session.boundary import RefusedCrossing
from agenttape_core.session.executed_crossing import ExecutedCrossing
from agenttape_core.session.served_crossing import ServedCrossing

Crossing = ServedCrossing | RefusedCrossing | ExecutedCrossing
"""A call at a boundary. `is_served` is true of the first two, which are answered without being executed."""

C = TypeVar("C", bound=Crossing)

_watchers: list[Callable[[Crossing], None]] = []


def watch_crossings(watcher: Callable[[Crossing], None]) -> None:
    """Call this with each crossing of this process when it begins, where it is made; `verify` compares them."""
    _watchers.append(watcher)


def begun(crossing: C) -> C:
    """Show a crossing that begins to those who watch, and return it."""
    for watcher in _watchers:
        watcher(crossing)
    return crossing
