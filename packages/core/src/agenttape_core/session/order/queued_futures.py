"""Futures that a program in an event loop puts into the queue of a thread, which answers them.

So do drivers of databases (`aiosqlite`): an item of the queue is a function and a future of the loop, and the thread
hands the result over by `call_soon_threadsafe`. Which of several threads answers first is part of the order of the
loop, as it is for the threads of an executor.
"""

from __future__ import annotations

import asyncio
import sys
from contextvars import Context
from types import FrameType
from typing import Any

from agenttape_core.session.order.loops import line_of_program

ANSWERED = "_agenttape_work"
"""The attribute of a future for the work of the thread that answers it."""
_NOWHERE = Context()
_NEAR = 6
"""Frames between a queue and the method of an object that is deleted."""


class QueuedFuture:
    """The work of a thread that is to answer a future.

    Args:
        line: The line of the loop: see `schedule`.
        owner: The call whose code has put it there; `None` for the program.
    """

    __slots__ = ("key", "line", "number")

    sort = "answer"
    is_inside = False

    def __init__(self, line: Any, owner: Any) -> None:
        self.line = line
        self.key = ""
        """Its number among the work of the program itself, outside of its calls."""
        self.number: int = line.makes_work(self, owner)


class _OfCollector:
    """The work of a thread for an object that is deleted: nothing of the program, and in no order."""

    __slots__ = ()

    line = None
    number = 0
    sort = "answer"
    is_inside = True


_OF_COLLECTOR = _OfCollector()


def is_put(item: Any) -> None:
    """Note that an item is put into a simple queue."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
    if loop is None:
        return
    for part in item if type(item) is tuple else (item,):
        if isinstance(part, asyncio.Future) and part.get_loop() is loop and not part.done():
            if _is_in_finalizer():
                setattr(part, ANSWERED, _OF_COLLECTOR)
                continue
            line, owner = line_of_program(None, loop)
            if line is not None:
                _watch(part, line, owner)


def _is_in_finalizer() -> bool:
    """Return whether an object is deleted here: the collector does that at any time, in any code."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - gives the stack without building a list
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _watch(future: asyncio.Future[Any], line: Any, owner: Any) -> None:
    queued = QueuedFuture(line, owner)
    setattr(future, ANSWERED, queued)

    def gone(done: asyncio.Future[Any]) -> None:
        if done.cancelled():  # the thread may answer it all the same, or never
            line.work_is_over((queued.sort, queued.number))

    future.add_done_callback(gone, context=_NOWHERE)
