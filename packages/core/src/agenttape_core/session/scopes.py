"""The scopes of sessions: which one a context is in, and which are open in the process.

Generic, because this module lies below `session.py`: a session enters and leaves these scopes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar


class Scoped(Protocol):
    """A session, as far as its scope is concerned."""

    outer: Any

    @property
    def closed(self) -> bool:
        """True if it has ended."""


S = TypeVar("S", bound=Scoped)


class Scopes(Generic[S]):
    """The sessions of this process. Thread-safe."""

    def __init__(self) -> None:
        self._current: ContextVar[S | None] = ContextVar("agenttape_session", default=None)
        self._open: list[S] = []
        self._lock = Lock()

    def innermost(self) -> S | None:
        """Return the innermost open session of this context, without looking at other threads."""
        session = self._current.get()
        while session is not None and session.closed:
            session = session.outer
        return session

    def current(self) -> S | None:
        """Return the session in force here: that of this context, or the only open one of the process."""
        session = self.innermost()
        if session is None and len(self._open) == 1:
            return self._open[0]
        return session

    def enter(self, session: S) -> None:
        """Open a session, and make it the current one of this context."""
        with self._lock:
            self._open.append(session)
        self._current.set(session)

    def leave(self, session: S) -> bool:
        """Undo `enter`, also from another context than the one that entered; whether this context had it as current."""
        with self._lock:
            self._open.remove(session)
        mine = self._current.get() is session
        if mine:
            self._current.set(session.outer)
        return mine

    def swap(self, session: S | None) -> S | None:
        """Make a session the current one of this context without opening it, and return the one that was."""
        before = self._current.get()
        self._current.set(session)
        return before


_ambient_for: ContextVar[tuple[object, ...]] = ContextVar("agenttape_ambient_for", default=())


@contextmanager
def taking_part(session: object) -> Iterator[None]:
    """While inside, integrations tape what the user did not tape, as in a session that is ambient.

    For what an integration tapes as a whole and yet runs on every replay, for example a graph. Hold it only while the
    code of the graph runs, never across a `yield`.
    """
    before = _ambient_for.get()
    _ambient_for.set((*before, session))
    try:
        yield
    finally:
        _ambient_for.set(before)  # no token: an abandoned coroutine is closed in the context of its collector


def takes_part(session: object) -> bool:
    """True if this call is inside of something that takes part in the session."""
    return session in _ambient_for.get()
