"""Contexts that are older than a session, or empty, in which the program of the session begins a task.

`asyncio.Runner` runs all that it is given in one context, which is as old as the runner. What it runs within a session
belongs to it, as a task does that copies the context of whoever begins it. All other variables are left alone, and what
the session has put there is gone when the task has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from typing import Any

from agenttape_core.scheduling.scopes import SCOPES

_OURS = "agenttape_"
"""The beginning of the names of our variables."""


def lend(context: Context) -> Callable[[object], None] | None:
    """Let a context that belongs to no open session be in that of the caller.

    Returns:
        To be called when what begins in the context has ended; `None` if the context is left as it is.
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
    return {variable: value for variable, value in context.items() if variable.name.startswith(_OURS)}


def become(values: Mapping[ContextVar[Any], Any]) -> None:
    """Let our variables have these values in the context of the caller, and others their defaults."""
    for variable in ours(copy_context()):
        if variable not in values:
            variable.set(Context().run(variable.get))
    for variable, value in values.items():
        variable.set(value)
