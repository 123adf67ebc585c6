"""A boundary crossing in progress: served from the cassette, executed and recorded, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agenttape_core.session.executed_crossing import ExecutedCrossing
from agenttape_core.session.faked_crossing import FakedCrossing
from agenttape_core.session.refused_crossing import RefusedCrossing
from agenttape_core.session.served_crossing import ServedCrossing

Crossing = ServedCrossing | RefusedCrossing | FakedCrossing | ExecutedCrossing
"""A call at a boundary. `is_served` is true of all but the last, which are answered without being executed."""

C = TypeVar("C", bound=Crossing)

_watchers: list[Callable[[Crossing], None]] = []
_answer_watchers: list[Callable[[Crossing], None]] = []


def watch_crossings(watcher: Callable[[Crossing], None]) -> None:
    """Call this with each crossing of this process when it begins, where it is made; `verify` compares them."""
    _watchers.append(watcher)


def stop_watching(watcher: Callable[[Crossing], None]) -> None:
    """Call a function no longer that `watch_crossings` was given."""
    _watchers.remove(watcher)


def begun(crossing: C) -> C:
    """Show a crossing that begins to those who watch, and return it."""
    for watcher in _watchers:
        watcher(crossing)
    return crossing


def watch_answers(watcher: Callable[[Crossing], None]) -> None:
    """Call this with each served crossing of this process when its answer has come, where it was made.

    Of a stream, that is when its reader has come to its end. A call that is cancelled has no answer.
    """
    _answer_watchers.append(watcher)


def answered(crossing: Crossing) -> None:
    """Show a served crossing whose answer has come to those who watch."""
    for watcher in _answer_watchers:
        watcher(crossing)
