"""The session that answers for what the caller does, and whether it does that for a call which is executed."""

from __future__ import annotations

from agenttape_core.freeze import Frozen
from agenttape_core.scheduling import SCOPES
from agenttape_core.session.executed_call import ExecutedCall, executing
from agenttape_core.session.passed_on import is_passed_on
from agenttape_core.session.session import Session


def frozen_of_bare_thread() -> Frozen | None:
    """Return what is kept fixed for a thread without a context, or work in one, that a session's program has begun."""
    origin = SCOPES.origin()
    if origin is None or origin.draws is None:
        return None
    session: Session | None = origin.membership.innermost()
    return session.frozen_here(origin.crossing) if session is not None else None


def owning_session() -> Session | None:
    """Return the session that the caller belongs to for certain, by its context or by its origin.

    It may be a replay that has ended: then the caller outlives it.
    """
    owner: Session | None = SCOPES.owner()
    return owner


def executing_of(session: Session) -> bool:
    """Return True if the caller runs for a boundary that is being executed in a session.

    Code that knows nothing of any session may run for it too, such as the threads of a client that is older than it,
    and a connection that was made for one call and is used by others.
    """
    origin = SCOPES.origin()
    crossing: ExecutedCall | None = executing() or (origin.crossing if origin is not None else None)
    if crossing is not None:
        return crossing.session is session and (crossing.reaches_out() or (crossing.is_real and is_passed_on()))
    return owning_session() is None and session.executes_now()
