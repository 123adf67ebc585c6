"""The session that a call belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agenttape_core.matching import current_branch, enter_branch
from agenttape_core.session.executed_call import RUNNING, ExecutedCall, executing, swap_executing
from agenttape_core.session.session import SCOPES, Session

# The methods themselves, as each call asks several times.
current_session: Callable[[], Session | None] = SCOPES.current
"""Return the session in force here, or `None`.

It is the innermost open one of this context. A thread without a context (a bare `threading.Thread`) belongs to the
session that it was started in; one that is older than all of them to the only open one, or to the last replay that
was opened. A replay that has ended is in force for what it has started: it refuses all calls.
"""
context_session: Callable[[], Session | None] = SCOPES.innermost
"""Return the innermost open session of this context, without looking at other threads."""


def call_is_under_way() -> bool:
    """Return True while a call of this context's session is under way beside the caller, and not around it.

    It is executed, or is decided, or is served and waits for its answer.
    """
    session, around, origin = SCOPES.innermost(), executing(), SCOPES.origin()
    if session is None and origin is not None:
        session, around = origin.membership.innermost(), around or origin.crossing
    if session is None:
        return False
    running = session.extension(RUNNING)[:]
    return bool(session.answering) or not all(around is not None and around.is_below(one) for one in running)


@contextmanager
def as_observed(session: Session, outer: ExecutedCall | None) -> Iterator[None]:
    """While inside, the caller counts as running in a session, within a crossing of it.

    For an integration that observes: inside, it builds the request of a call with the same code as one that
    substitutes. Hold it for that only, never across a `yield` or the real call.

    Args:
        session: The session of the observation.
        outer: The innermost observed crossing that the call is part of.
    """
    real, executed, branch = SCOPES.swap(session.observed), swap_executing(outer), current_branch()
    enter_branch(None)
    try:
        yield
    finally:
        enter_branch(branch)
        swap_executing(executed)
        SCOPES.swap(real)
