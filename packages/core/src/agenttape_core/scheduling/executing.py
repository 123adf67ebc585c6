"""The call that is executed for real where code runs, and whether that code belongs to the program."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

EXECUTING: ContextVar[Any] = ContextVar("agenttape_executing", default=None)
"""The innermost call that is executed for real around what runs here."""
PASSED_ON: ContextVar[bool] = ContextVar("agenttape_passed_on", default=False)
"""True for code of a connection that outlives a call: what it sends is recorded above, and a replay has none of it."""


def is_outside_program(crossing: Any) -> bool:
    """Return True if the code of a call is nothing that a replay runs: it has no turns, and nor has what it begins."""
    return not (crossing.is_run_now or (crossing.session.scheduler.loops.is_kept and crossing.may_be_run_again))


def runs_outside_program() -> bool:
    """Return True if what runs here is the code of such a call, or of a connection: see `PASSED_ON`."""
    if PASSED_ON.get():
        return True
    crossing = EXECUTING.get()
    return crossing is not None and is_outside_program(crossing)
