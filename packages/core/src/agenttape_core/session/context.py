"""The session that a call belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agenttape_core.matching import current_branch, enter_branch
from agenttape_core.session.executed_crossing import ExecutedCrossing, swap_executing
from agenttape_core.session.session import SCOPES, Session


def current_session() -> Session | None:
    """Return the session in force here, or `None`.

    It is the innermost open one of this context. A thread that was started without a context (a bare
    `threading.Thread`) belongs to the process's only open session.
    """
    return SCOPES.current()


def context_session() -> Session | None:
    """Return the innermost open session of this context, without looking at other threads."""
    return SCOPES.innermost()


@contextmanager
def as_observed(session: Session, outer: ExecutedCrossing | None) -> Iterator[None]:
    """While inside, the caller counts as running in a session, within a crossing of it.

    For an integration that observes: inside, it builds the request of a call with the same code as one that
    substitutes. Hold it for that only, never across a `yield` or the real call.

    Args:
        session: The session of the observation.
        outer: The innermost observed crossing that the call is part of.
    """
    real, executed, branch = SCOPES.swap(session), swap_executing(outer), current_branch()
    enter_branch(None)
    try:
        yield
    finally:
        enter_branch(branch)
        swap_executing(executed)
        SCOPES.swap(real)
