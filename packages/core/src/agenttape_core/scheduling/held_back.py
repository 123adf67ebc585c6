"""The callbacks of an event loop that wait in a replay until it is their turn: timers, and posts of threads."""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

from agenttape_core.scheduling.handles import Posted
from agenttape_core.schema import Sender

Key: TypeAlias = tuple[Sender, int]
"""The sort of a callback, `timer` or `job`, and the number of the timer or of the job."""


class HeldBack:
    """Callbacks in the order in which they came."""

    def __init__(self) -> None:
        self._handles: dict[int, tuple[Key, Any]] = {}
        self._places: dict[Key, deque[int]] = {}
        self._next = 0

    def __iter__(self) -> Iterator[tuple[Key, Any]]:
        return iter(self._handles.values())

    def __bool__(self) -> bool:
        return bool(self._handles)

    def add(self, key: Key, handle: Any) -> None:
        """Hold a callback back."""
        callback = handle._callback  # noqa: SLF001 - no public name tells it
        if type(callback) is Posted and callback.handed is not None:
            callback.handed.is_held = True
        self._next += 1
        self._handles[self._next] = key, handle
        self._places.setdefault(key, deque()).append(self._next)

    def take(self, key: Key) -> Any:
        """Take out the first callback of a timer, or of a job; `None` if there is none."""
        places = self._places.get(key)
        if not places:
            return None
        _, handle = self._handles.pop(places.popleft())
        if not places:
            del self._places[key]
        return handle

    def take_first_post(self) -> Any:
        """Take out the first one that is no timer; `None` if there is none."""
        key = next((key for key, _ in self._handles.values() if key[0] != "timer"), None)
        return self.take(key) if key is not None else None

    def take_first(self) -> Any:
        """Take out the one that came first."""
        key, _ = next(iter(self._handles.values()))
        return self.take(key)

    def take_timer(self) -> Any:
        """Take out the timer that came first; `None` if there is none."""
        key = next((key for key, _ in self if key[0] == "timer"), None)
        return self.take(key) if key is not None else None

    def take_all(self) -> list[Any]:
        """Take out all."""
        handles = [handle for _, handle in self._handles.values()]
        self._handles.clear()
        self._places.clear()
        return handles


_let_through: dict[int, Any] = {}
"""The timers that were held, and are next."""


def let_through(handle: Any, *, first: bool = True) -> None:
    """Have a loop call a callback that was held: next, or after all that are ready."""
    callback = handle._callback  # noqa: SLF001 - no public name tells it
    if type(callback) is Posted:
        callback.is_let_through = True
        if callback.handed is not None:
            callback.handed.is_held = False
    else:
        _let_through[id(handle)] = handle
    ready = handle._loop._ready  # noqa: SLF001 - no public name puts a handle first
    (ready.appendleft if first else ready.append)(handle)


def call_later_on(handle: Any) -> None:
    """Have a loop call a callback that was held, as nothing is awaited any more: a timer when it may come then."""
    is_timer, ready = isinstance(handle, TimerHandle), handle._loop._ready  # noqa: SLF001 - no public name puts a handle there
    if is_timer:
        ready.append(handle)
    else:
        let_through(handle, first=False)


def is_let_through(handle: Any) -> bool:
    """Return True if it is the turn of a callback."""
    callback = handle._callback  # noqa: SLF001
    return callback.is_let_through if type(callback) is Posted else id(handle) in _let_through


def was_let_through(handle: Any) -> bool:
    """Return True if a callback is a timer that was held, and note that the loop calls it now."""
    return _let_through.pop(id(handle), None) is not None
