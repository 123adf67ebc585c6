"""Find the call that's executed for real where code runs, and whether that code belongs to the program.

The code that runs when an object is deleted belongs to neither, as the garbage collector may run it at any time.
"""

from __future__ import annotations

import sys
from asyncio import Future
from contextvars import ContextVar
from types import FrameType
from typing import Any

EXECUTING: ContextVar[Any] = ContextVar("agenttape_executing", default=None)
"""The innermost call that is executed for real around what runs here."""
PASSED_ON: ContextVar[bool] = ContextVar("agenttape_passed_on", default=False)
"""True for code of a connection that outlives a call: its requests are recorded above, and a replay has none of it."""
ANSWERED: ContextVar[Any] = ContextVar("agenttape_answered", default=None)
"""See `Scheduler.answered`."""


def is_outside_program(session_call: Any) -> bool:
    """Return True if the code of a call is nothing that a replay runs: it has no turns, and nor has what it begins."""
    is_kept = session_call.session.scheduler.loops.is_kept
    return not (session_call.is_run_now or (is_kept and session_call.may_be_run_again))


def runs_outside_program() -> bool:
    """Return True if what runs here is the code of such a call, or of a connection, or passes an answer on."""
    if PASSED_ON.get() or ANSWERED.get() is not None:
        return True
    session_call = EXECUTING.get()
    return session_call is not None and is_outside_program(session_call)


_NEAR = 6
"""Frames between the method that deletes an object and the seam that looks for it."""


def is_in_finalizer() -> bool:
    """Return whether an object is deleted by the caller of the caller: the collector does that in any code."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - gives the stack without building a list
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def leaves_out(item: Any) -> bool:
    """Return True if an item of a queue is work that nothing of the program waits for, and note that of its futures."""
    if not (is_in_finalizer() or runs_outside_program()):
        return False
    is_work = False
    for part in item if type(item) is tuple else (item,):
        is_work = is_work or callable(part)
        if isinstance(part, Future):
            is_work = True
            setattr(part, _LEFT_OUT, True)
    return is_work


def is_left_out(callback: Any, args: tuple[Any, ...]) -> bool:
    """Return True if what a thread puts into a loop answers such a future."""
    return any(getattr(future, _LEFT_OUT, False) for future in (getattr(callback, "__self__", None), *args[:1]))


_LEFT_OUT = "_agenttape_is_left_out"
