"""Find the owner of a callback of an event loop: the program of a session, a call of it, or neither.

A callback of a loop, its *handle*, runs in its own context, and the session's variables there tell these apart. Where
the context says that a call executes, the callback belongs to the outside; so do those that watch sockets, and those
that other threads have put there.

A task or a callback may run in a context that's older than the session, or empty: `asyncio.Runner` runs all that it's
given in one context, and `loop.call_soon(callback, context=Context())` in a new one. It belongs to the session of the
code that has given it to the loop, so while it runs, its context has our variables of that code. All other variables
stay, and ours are gone when it has ended.
"""

from __future__ import annotations

import os
import sys
import threading
from asyncio import Task, base_events
from asyncio.transports import BaseTransport
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from types import FrameType
from typing import Any, Final

from agenttape_core.freeze import timed_waits
from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.scheduling.executing import ANSWERED, EXECUTING, PASSED_ON
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.side_effects import function_of

_PREFIX = "agenttape_"
"""The beginning of the names of our variables."""


def join_session(context: Context) -> Callable[[object], None] | None:
    """Let a context that belongs to no open session be in that of the caller.

    Returns:
        To be called when what begins in the context has ended; `None` if the context isn't changed.
    """
    membership, other = SCOPES.membership(), context.get(SCOPES.variable)
    if membership is None or membership.innermost() is None or (other is not None and other.innermost() is not None):
        return None
    held = ours(context)
    try:
        context.run(become, ours(copy_context()))
    except RuntimeError:  # it is entered already
        return None

    def take_back(_: object) -> None:
        if context.get(SCOPES.variable) is membership:
            context.run(become, held)

    return take_back


def ours(context: Context) -> dict[ContextVar[Any], Any]:
    """Return our variables that a context has, with their values."""
    return {variable: value for variable, value in context.items() if variable.name.startswith(_PREFIX)}


def become(values: Mapping[ContextVar[Any], Any]) -> None:
    """Let our variables have these values in the context of the caller, and others their defaults."""
    for variable in ours(copy_context()):
        if variable not in values:
            variable.set(Context().run(variable.get))
    for variable, value in values.items():
        variable.set(value)


_OURS = str(Path(__file__).parents[2]) + os.sep
"""The files of this package."""
_PASSING = {__file__, str(Path(__file__).with_name("loop_seams.py")), timed_waits.__file__, base_events.__file__}
"""The files between the program and a loop."""


class InSession:
    """A callback that has our variables of whoever has given it to the loop.

    Args:
        callback: The callback.
        giver: The context of whoever has given it to the loop.
    """

    __slots__ = ("callback", "giver")

    def __init__(self, callback: Callable[..., Any], giver: Context) -> None:
        self.callback = callback
        self.giver = giver

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        held = ours(copy_context())
        become(ours(self.giver))
        try:
            return self.callback(*args)
        finally:
            become(held)

    def __repr__(self) -> str:
        return repr(self.callback)


def in_session(callback: Any, context: Context) -> Any:
    """Return the callback for a loop to call in a context, for a callback that was given to it in the caller's.

    Args:
        callback: The callback.
        context: The context, in which the loop calls it.

    Returns:
        The callback itself, unless it belongs to a session by its giver alone.
    """
    given = callback.callback if type(callback) is timed_waits.Timer else callback
    if isinstance(getattr(given, "__self__", None), Task):  # its next step
        return callback
    if _is_in_session(context) or not _is_in_session(None):
        return callback
    return InSession(callback, copy_context()) if _is_of_program(given) else callback


def _is_in_session(context: Context | None) -> bool:
    """Return whether a context, by default that of the caller, belongs to an open session, or its thread does."""
    membership = SCOPES.of_program(context)
    return membership is not None and membership.innermost() is not None


def _is_of_program(callback: Any) -> bool:
    """Return whether a callback is code of the program; one in C is if the program itself gives it to the loop."""
    code = function_of(callback)
    if code is not None:
        return not (is_library(code.co_filename) or code.co_filename.startswith(_OURS))
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None and frame.f_code.co_filename in _PASSING:
        frame = frame.f_back
    return frame is not None and not is_library(frame.f_code.co_filename) and not is_own(frame)


ANSWERING: ContextVar[bool] = ContextVar("agenttape_answering", default=False)
"""True in a context whose call waits to be answered from its recording."""

PROGRAM: Final = object()
"""The owner of a handle that is a step of the program."""


class _Ours(threading.local):
    now: bool = False


_ours = _Ours()


@contextmanager
def timers_of_ours() -> Iterator[None]:
    """While inside, the timers that this thread sets are not the program's."""
    before, _ours.now = _ours.now, True
    try:
        yield
    finally:
        _ours.now = before


def are_timers_ours() -> bool:
    """Return True inside `timers_of_ours`."""
    return _ours.now


@contextmanager
def answering() -> Iterator[None]:
    """While inside, the callbacks of this task aren't steps of the program: it waits for an answer."""
    before = ANSWERING.get()
    ANSWERING.set(True)
    try:
        yield
    finally:
        ANSWERING.set(before)  # no token: an abandoned coroutine is closed in the context of its collector


class Looking:
    """The base of objects of ours whose methods a loop calls to look at itself: a loop with no others is idle."""

    __slots__ = ()


def owner_of(handle: Any, session: object) -> Any:
    """Return the owner of a handle: `PROGRAM`, the call that executes, or `None` if it is not of a session.

    Args:
        handle: The handle, of one of Python's own loops.
        session: The session.
    """
    callback = handle._callback  # noqa: SLF001 - no public name tells it
    context = handle._context if type(callback) is not InSession else callback.giver  # noqa: SLF001 - in Python 3.11 no public name tells it
    membership = SCOPES.of_program(context)
    if membership is None or membership.innermost() is not session or context.get(ANSWERING):
        return None
    if context.get(PASSED_ON) or context.get(ANSWERED) is not None:
        return None
    bound = getattr(callback, "__self__", None)
    if bound is handle._loop or isinstance(bound, BaseTransport | Looking) or _is_cancelling(bound):  # noqa: SLF001
        return None
    session_call = context.get(EXECUTING)
    return PROGRAM if session_call is None or session_call.session is not session else session_call


def _is_cancelling(bound: Any) -> bool:
    """Return True for a scope of anyio that cancels its tasks, in each round of the loop until they have ended."""
    kind = type(bound)
    return kind.__name__ == "CancelScope" and kind.__module__ == "anyio._backends._asyncio"
