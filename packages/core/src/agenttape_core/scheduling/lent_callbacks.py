"""Callbacks that the program of a session gives to an event loop together with a context that belongs to no session.

Such a context is empty, or older than the session: `loop.call_soon(callback, context=Context())`. The callback belongs
to the session of whoever has given it to the loop, as tasks do (see `lent_contexts`): it is a step of the program, and
time and ids are frozen in it. All other variables are those of its context.
"""

from __future__ import annotations

import os
import sys
from asyncio import Task, base_events
from collections.abc import Callable
from contextvars import Context, copy_context
from pathlib import Path
from types import FrameType
from typing import Any

from agenttape_core.freeze import timed_waits
from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.scheduling.lent_contexts import become, ours
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.side_effects import function_of

_OURS = str(Path(__file__).parents[2]) + os.sep
"""The files of this package."""
_PASSING = {__file__, str(Path(__file__).with_name("loops.py")), timed_waits.__file__, base_events.__file__}
"""The files between the program and a loop."""


class Lent:
    """A callback that has our variables of whoever has given it to the loop.

    Args:
        callback: The callback.
        lender: The context of whoever has given it to the loop.
    """

    __slots__ = ("callback", "lender")

    def __init__(self, callback: Callable[..., Any], lender: Context) -> None:
        self.callback = callback
        self.lender = lender

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        held = ours(copy_context())
        become(ours(self.lender))
        try:
            return self.callback(*args)
        finally:
            become(held)

    def __repr__(self) -> str:
        return repr(self.callback)


def lent(callback: Any, context: Context) -> Any:
    """Return what a loop is to call in a context, for a callback that was given to it in the caller's.

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
    return Lent(callback, copy_context()) if _is_of_program(given) else callback


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
