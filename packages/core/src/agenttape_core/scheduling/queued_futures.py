"""Futures that a program in an event loop puts into the queue of a thread, which answers them.

So do drivers of databases (`aiosqlite`): an item of the queue is a function and a future of the loop, and the thread
hands the result over by `call_soon_threadsafe`. Which of several threads answers first is part of the order of the
loop, as it is for the threads of an executor.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any

from agenttape_core.scheduling.executing import runs_outside_program
from agenttape_core.scheduling.finalizers import is_in_finalizer
from agenttape_core.scheduling.loops import line_of_program

ANSWERED = "_agenttape_work"
"""The attribute of a future for the work of the thread that answers it."""


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


class _Outside:
    """The work of a thread for an object that is deleted, or a call that is executed: nothing of the program."""

    __slots__ = ()

    line = None
    number = 0
    sort = "answer"
    is_inside = True


_OUTSIDE = _Outside()


def is_put(item: Any) -> None:
    """Note that an item is put into a simple queue."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
    if loop is None:
        return
    for part in item if type(item) is tuple else (item,):
        if isinstance(part, asyncio.Future) and part.get_loop() is loop and not part.done():
            line, owner = line_of_program(None, loop)
            if is_in_finalizer() or (line is None and runs_outside_program()):
                setattr(part, ANSWERED, _OUTSIDE)
            elif line is not None:
                _watch(part, line, owner)


def _watch(future: asyncio.Future[Any], line: Any, owner: Any) -> None:
    queued = QueuedFuture(line, owner)
    setattr(future, ANSWERED, queued)

    def gone(done: asyncio.Future[Any]) -> None:
        if done.cancelled():  # the thread may answer it all the same, or never
            line.work_is_over((queued.sort, queued.number))

    future.add_done_callback(gone, context=Context())  # one for each: two threads cannot be in one
