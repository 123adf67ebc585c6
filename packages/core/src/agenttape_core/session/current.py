"""Which session a call belongs to."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING

from agenttape_core.matching import task_branch

if TYPE_CHECKING:
    from agenttape_core.session.crossing import Crossing
    from agenttape_core.session.session import Session

_current: ContextVar[Session | None] = ContextVar("agenttape_session", default=None)
_executing: ContextVar[Crossing | None] = ContextVar("agenttape_executing", default=None)
_open: list[Session] = []
_scopes: list[Callable[[], str | None]] = []
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


def watch_crossings(watcher: Callable[[Crossing], None]) -> None:
    """Call this with each crossing of this process when it begins, where it is made; `verify` compares them."""
    _watchers.append(watcher)


def register_scope(provider: Callable[[], str | None]) -> None:
    """Let an integration say in which sequential strand of a run the caller is; ids are counted by strand."""
    _scopes.append(provider)


def current_scope() -> str:
    """Return the name of the sequential strand of the run that the caller is in, the same in every run."""
    for provider in _scopes:
        scope = provider()
        if scope is not None:
            return scope
    session = context_session()
    branch = task_branch(session.root) if session is not None else None
    return branch.name if branch is not None else ""
