"""The calls that are executed around a piece of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from agenttape_core.scheduling import EXECUTING
from agenttape_core.session.executed_crossing import ExecutedCrossing


def executing() -> ExecutedCrossing | None:
    """Return the innermost boundary that is being executed for real around this call."""
    found: ExecutedCrossing | None = EXECUTING.get()
    return found


def swap_executing(crossing: ExecutedCrossing | None) -> ExecutedCrossing | None:
    """Make a crossing the innermost one that is being executed in this context, and return the one that was."""
    before = executing()
    EXECUTING.set(crossing)
    return before


_NOWHERE = nullcontext()


def told_outside() -> AbstractContextManager[None]:
    """While inside, the caller is outside of the calls that are executed around it, up to a tool or the like.

    For what a call tells the program while it is executed: whoever is told is part of the run, with its clock and ids.
    """
    return _told_outside() if EXECUTING.get() is not None else _NOWHERE


@contextmanager
def _told_outside() -> Iterator[None]:
    inside = EXECUTING.get()
    around = inside
    while around is not None and not around.is_of_program:
        around.arrivals.tells.told()
        around = around.parent
    if around is inside:
        yield
        return
    EXECUTING.set(around)
    try:
        yield
    finally:
        EXECUTING.set(inside)
