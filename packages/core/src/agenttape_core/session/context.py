"""Which session a call belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING

from agenttape_core.matching import current_branch, enter_branch

if TYPE_CHECKING:
    from agenttape_core.session.crossing import Crossing
    from agenttape_core.session.session import Session

_current: ContextVar[Session | None] = ContextVar("agenttape_session", default=None)
_executing: ContextVar[Crossing | None] = ContextVar("agenttape_executing", default=None)
_joined: ContextVar[tuple[Session, ...]] = ContextVar("agenttape_joined", default=())
_open: list[Session] = []
_watchers: list[Callable[[Crossing], None]] = []
_lock = Lock()


def current_session() -> Session | None:
    """Return the session in force here, or nothing.

    It is the innermost open one of this context. A thread that was started without a context (a bare
    `threading.Thread`) belongs to the process's only open session.
    """
    session = context_session()
    if session is None and len(_open) == 1:
        return _open[0]
    return session


def context_session() -> Session | None:
    """Return the innermost open session of this context, without looking at other threads."""
    session = _current.get()
    while session is not None and session.closed:
        session = session.outer
    return session


def executing() -> Crossing | None:
    """Return the innermost boundary that is being executed for real around this call."""
    return _executing.get()


@contextmanager
def taking_part(session: Session) -> Iterator[None]:
    """While inside, integrations tape what the user did not tape, as in a session that is ambient.

    For what an integration tapes as a whole and yet runs on every replay, such as a graph. Hold it only while its code
    runs, never across a `yield`.
    """
    before = _joined.get()
    _joined.set((*before, session))
    try:
        yield
    finally:
        _joined.set(before)  # no token: an abandoned coroutine is closed in the context of whoever collects it


def takes_part(session: Session) -> bool:
    """Whether this call is inside of something that takes part in the session."""
    return session in _joined.get()


@contextmanager
def as_observed(session: Session, outer: Crossing | None) -> Iterator[None]:
    """While inside, the caller counts as running in a session, within a crossing of it.

    For an integration that observes: it builds the request of a call that it is told of by the code that a session that
    substitutes builds it with. Hold it for that only, never across a `yield` or the real call.

    Args:
        session: The session of the observation.
        outer: The innermost observed crossing that the call is part of.
    """
    real, executed, branch = _current.set(session), _executing.set(outer), current_branch()
    enter_branch(None)
    try:
        yield
    finally:
        enter_branch(branch)
        _executing.reset(executed)
        _current.reset(real)


def enter(session: Session) -> None:
    """Make a session the current one of this context."""
    with _lock:
        _open.append(session)
    _current.set(session)


def leave(session: Session) -> bool:
    """Undo `enter`, also from another context than the one that entered; whether this context had it as current."""
    with _lock:
        _open.remove(session)
    mine = _current.get() is session
    if mine:
        _current.set(session.outer)
    return mine


def swap(session: Session | None) -> Session | None:
    """Make a session the current one of this context without opening it, and return the one that was."""
    before = _current.get()
    _current.set(session)
    return before


def watch_crossings(watcher: Callable[[Crossing], None]) -> None:
    """Call this with each crossing of this process when it begins, where it is made; `verify` compares them."""
    _watchers.append(watcher)
