"""The code that runs when an object is deleted: nobody's, as the garbage collector may run it at any time."""

from __future__ import annotations

import sys
from asyncio import Future
from types import FrameType
from typing import Any

from agenttape_core.scheduling.executing import runs_outside_program

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
