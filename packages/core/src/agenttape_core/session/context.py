"""The session that code belongs to, and whether its calls are part of a recorded call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agenttape_core.freeze import Frozen
from agenttape_core.matching import current_branch, enter_branch
from agenttape_core.scheduling import PASSED_ON
from agenttape_core.session.executed_call import ExecutedCall, executing, swap_executing
from agenttape_core.session.session import SCOPES, Session

# The methods themselves, as each call asks several times.
current_session: Callable[[], Session | None] = SCOPES.current
"""Return the session in force here, or `None`.

It is the innermost open one of this context. A thread without a context (a bare `threading.Thread`) belongs to the
session that it was started in; one that is older than all of them to the only open one, or to the last replay that
was opened. A replay that has ended is still in force for work it started: it refuses all calls.
"""
context_session: Callable[[], Session | None] = SCOPES.innermost
"""Return the innermost open session of this context, without looking at other threads."""


def call_is_under_way() -> bool:
    """Return True while a call of this context's session is under way beside the caller, and not around it.

    It is executed, or is decided, or is replayed and waits for its answer.
    """
    session, around, origin = SCOPES.innermost(), executing(), SCOPES.origin()
    if session is None and origin is not None:
        session, around = origin.membership.innermost(), around or origin.session_call
    if session is None:
        return False
    running = session.running[:]
    return bool(session.answering) or not all(around is not None and one in around.stack for one in running)


@contextmanager
def as_observed(session: Session, outer: ExecutedCall | None) -> Iterator[None]:
    """While inside, the caller counts as running in a session, within a call of it.

    For an integration that observes: inside, it builds the request of a call with the same code as one that
    substitutes. Hold it for that only, never across a `yield` or the real call.

    Args:
        session: The session of the observation.
        outer: The innermost observed call that the call is part of.
    """
    real, executed, branch = SCOPES.swap(session.observed), swap_executing(outer), current_branch()
    enter_branch(None)
    try:
        yield
    finally:
        enter_branch(branch)
        swap_executing(executed)
        SCOPES.swap(real)


def frozen_of_bare_thread() -> Frozen | None:
    """Return the frozen values for a thread without a context, or work in one, that a session's program has begun."""
    origin = SCOPES.origin()
    if origin is None or origin.draws is None:
        return None
    session: Session | None = origin.membership.innermost()
    return session.frozen_here(origin.session_call) if session is not None else None


def owning_session() -> Session | None:
    """Return the session that the caller belongs to for certain, by its context or by its origin.

    It may be a replay that has ended: then the caller outlives it.
    """
    owner: Session | None = SCOPES.owner()
    return owner


def executing_of(session: Session) -> bool:
    """Return True if the caller runs for a boundary that is being executed in a session.

    Code without a session may also run for it, such as the threads of a client that is older than the session, or a
    connection that was opened for one call and is shared by others.
    """
    origin = SCOPES.origin()
    session_call: ExecutedCall | None = executing() or (origin.session_call if origin is not None else None)
    if session_call is not None:
        return session_call.session is session and (
            session_call.stack.reaches_out() or (session_call.is_real and is_passed_on())
        )
    running = session.running[:]
    return owning_session() is None and any(call.stack.reaches_out() for call in running)


@contextmanager
def passing_on() -> Iterator[None]:
    """Pass on what code sends that runs inside, and what tasks send that it starts: a layer above has recorded it.

    For connections that outlive a call, such as that to a tool server. During a call, the kind of the call decides. A
    replay has no such connection, so its steps and timers aren't part of the program.
    """
    token = PASSED_ON.set(True)
    try:
        yield
    finally:
        PASSED_ON.reset(token)


def is_passed_on() -> bool:
    """Return whether the caller is inside of `passing_on`."""
    return PASSED_ON.get()
