"""LlamaIndex's own way to add a handler, `dispatcher.add_event_handler(handler)`: it attaches ours.

The framework would pass it events only. The calls themselves are in the spans.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from llama_index_instrumentation.dispatcher import Dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler

from agenttape_core.integration import Lock


@runtime_checkable
class Attachable(Protocol):
    """A handler that adds itself to a dispatcher."""

    def attach(self, dispatcher: Dispatcher | None = None) -> object:
        """Observe the reports of a dispatcher."""


def attaching(real: Callable[[Dispatcher, BaseEventHandler], None]) -> Callable[[Dispatcher, BaseEventHandler], None]:
    """Wrap `add_event_handler` of dispatchers: an attachable handler is attached."""

    @functools.wraps(real)
    def add_event_handler(self: Dispatcher, handler: BaseEventHandler) -> None:
        if isinstance(handler, Attachable):
            handler.attach(self)
        else:
            real(self, handler)

    return add_event_handler


class _Wrapped:
    """The framework's method, wrapped while there are handlers of ours. Thread-safe."""

    def __init__(self) -> None:
        self._users = 0
        self._real: Any = None
        self._lock = Lock()

    def need(self) -> None:
        """Wrap it, if it is not."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._real = Dispatcher.add_event_handler
                _put(attaching(self._real))

    def release(self) -> None:
        """Put it back, if there's no other handler."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _put(self._real)


def _put(method: Any) -> None:
    owner: Any = Dispatcher
    owner.add_event_handler = method


_wrapped = _Wrapped()


def attach_when_added(handler: Attachable) -> None:
    """Let a handler be attached where it is added to a dispatcher, for as long as it lives."""
    _wrapped.need()
    weakref.finalize(handler, _wrapped.release).atexit = False
