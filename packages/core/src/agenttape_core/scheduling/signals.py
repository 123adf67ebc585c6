"""Signals to handlers of the program: when one comes, no order says, so a recording and each replay note that one came.

Python calls a handler between any two steps of the main thread. To see that, the handlers that the program sets are
called by ours while sessions are open; whoever asks for a handler gets the program's.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # it has no stubs
import signal
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, SimpleNamespace
from typing import Any

from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.strands import is_of_program

_NUMBERS = sorted(map(int, signal.valid_signals()))
_module: Any = signal


class Watched:
    """A handler of the program, or a callback that an event loop calls for a signal.

    Args:
        handler: The handler.
    """

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler

    def __call__(self, *args: Any) -> Any:
        """Note that a signal came, and handle it. No lock is taken: the main thread may hold any."""
        for session in SCOPES.open():
            session.scheduler.threads.unordered.signal_came()
        return self.handler(*args)

    def __repr__(self) -> str:
        return repr(self.handler)


def watched(handler: Any) -> Any:
    """Return what handles a signal instead of a handler; that itself if it is no code of the program."""
    if not callable(handler) or isinstance(handler, Watched | BuiltinFunctionType) or not is_of_program(handler):
        return handler
    return Watched(handler)


def _unwatched(handler: Any) -> Any:
    return handler.handler if type(handler) is Watched else handler


def _set(number: int, handler: Any) -> Any:
    return _unwatched(_signal.signal(number, watched(handler)))


def _get(number: int) -> Any:
    return _unwatched(_signal.getsignal(number))


_OURS = SimpleNamespace(**{**vars(_signal), "signal": _set, "getsignal": _get})
"""Called by the functions of `signal`, by whatever reference the program has them."""


def watch_signals() -> None:
    """Watch the handlers of the program."""
    _module._signal = _OURS  # noqa: SLF001 - the functions of the module look there
    _exchange(watched)


def unwatch_signals() -> None:
    """Watch them no more."""
    _module._signal = _signal  # noqa: SLF001 - as above
    _exchange(_unwatched)


def _exchange(by: Callable[[Any], Any]) -> None:
    """Exchange the handlers that are there; only the main thread may."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _NUMBERS:
        handler = _signal.getsignal(number)
        if callable(handler) and (other := by(handler)) is not handler:
            _signal.signal(number, other)
