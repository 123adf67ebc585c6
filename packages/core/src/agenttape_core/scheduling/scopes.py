"""The scopes of sessions: which one a context is in, which threads and tasks belong to one, and which are open.

Generic, because this module lies below `session.py`: a session enters and leaves these scopes by itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet, ref

from agenttape_core.locks import Lock
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling.lazy_streams import UNREAD


class Scoped(Protocol):
    """A session, as far as its scope is concerned."""

    @property
    def closed(self) -> bool:
        """True if it has ended."""

    @property
    def is_replay(self) -> bool:
        """True if it was opened to replay."""

    @property
    def takes_strays(self) -> bool:
        """True if a thread without a context belongs to it where it is the only open one."""


S = TypeVar("S", bound=Scoped)


class Membership(Generic[S]):
    """A session as the contexts hold it that belong to it.

    Only they do, besides the session while it is open. So whether anything outlives a session is whether its membership
    does.

    Args:
        session: The session.
        outer: The membership that was there before, if there was one.
    """

    __slots__ = ("__weakref__", "_home", "outer", "session")

    def __init__(self, session: S, outer: Membership[S] | None) -> None:
        self.session = session
        self.outer = outer
        self._home: tuple[int, ref[Any] | None, ref[Any] | None] | None = _here()

    def innermost(self) -> S | None:
        """Return the innermost session that is open."""
        membership: Membership[S] | None = self
        while membership is not None and membership.session.closed:
            membership = membership.outer
        return membership.session if membership is not None else None

    @property
    def is_outlived(self) -> bool:
        """True for what a replay has started that runs on after its end; not for the context that the replay was in."""
        session = self.session
        return session.closed and session.is_replay and self._home != _here()

    def afterwards(self) -> Membership[S]:
        """Return a membership for what continues in the context that the session was in: it outlives the session."""
        after = Membership(self.session, self)
        after._home = None
        return after


class Origin(NamedTuple):
    """The beginning of a thread without a context, or of a piece of work in one.

    Args:
        membership: The session of whoever began it.
        session_call: The boundary that was being executed there, if there was one.
        is_work: True for work that was handed to a thread pool, false for the thread as a whole.
        draws: Entered in the thread: what it draws from, as `freeze.BegunWork`; `None` where time and ids are real.
    """

    membership: Membership[Any]
    session_call: Any
    is_work: bool
    draws: Any = None


def _here() -> tuple[int, ref[Any] | None, ref[Any] | None]:
    """Return the thread, the event loop and the task that the caller runs in."""
    asyncio = sys.modules.get("asyncio")
    try:
        loop = asyncio.get_running_loop() if asyncio is not None else None
    except RuntimeError:  # none runs in this thread
        loop = None
    if asyncio is None or loop is None:
        return threading.get_ident(), None, None
    task = asyncio.current_task(loop)
    return threading.get_ident(), ref(loop), ref(task) if task is not None else None


class Scopes(Generic[S]):
    """The sessions of this process. Thread-safe."""

    def __init__(self) -> None:
        self.variable: ContextVar[Membership[S] | None] = ContextVar("agenttape_session", default=None)
        """The membership of each context."""
        self._origin: ContextVar[Origin | None] = ContextVar("agenttape_origin", default=None)
        self._open: list[S] = []
        self._outlived: WeakSet[Membership[S]] = WeakSet()
        self._lock = Lock()

    def membership(self) -> Membership[S] | None:
        """Return what this context holds."""
        return self.variable.get()

    def of_program(self, context: Context | None = None) -> Membership[S] | None:
        """Return what a context holds, by default the caller's, or what the program holds that began its thread."""
        membership = self.variable.get() if context is None else context.get(self.variable)
        if membership is None:
            origin = self._origin.get() if context is None else context.get(self._origin)
            if origin is not None and origin.session_call is None:
                membership = origin.membership
        return membership

    def innermost(self) -> S | None:
        """Return the innermost open session of this context, without looking at other threads."""
        membership = self.variable.get()
        if membership is None or not membership.session.closed:
            return membership.session if membership is not None else None
        return membership.innermost()

    def current(self) -> S | None:
        """Return the session in force here.

        It is that of this context; for a thread without one that of its origin, else the only open one of the process,
        or the last replay that was opened. A replay that has ended is in force for what it has started, unless another
        one can serve that.
        """
        membership = self.variable.get()
        if membership is not None and not membership.session.closed:
            return membership.session
        if membership is None and not self._open and not self._outlived and not UNREAD:
            return None
        owner = self.owner()
        return owner if owner is not None else self._of_process()

    def owner(self) -> S | None:
        """Return the session that the caller belongs to for certain: by its context, or by its origin.

        It may be a replay that has ended.
        """
        found = _first(self.variable.get())
        origin = self._origin.get()
        if found is None and origin is not None:
            found = _first(origin.membership)
        if found is None and UNREAD and (unread := UNREAD.membership()) is not None:
            found = unread.session
        if found is None or not found.closed or not self._open:
            return found
        if all(session.is_replay for session in self._open):
            return None  # nothing can be executed by mistake
        # A thread may serve all that come, one replay after the other. A task or a piece of work is of one of them.
        is_thread = origin is not None and not origin.is_work and _first(self.variable.get()) is None
        return None if is_thread and len(self._open) == 1 else found

    def _of_process(self) -> S | None:
        sessions = self._open[:]
        if len(sessions) == 1:
            return sessions[0]
        return next((session for session in reversed(sessions) if session.is_replay), None)

    def enter(self, session: S) -> Membership[S]:
        """Open a session, make it the current one of this context, and return its membership."""
        outer = self.variable.get()
        while outer is not None and outer.session.closed and not outer.is_outlived:
            outer = outer.outer
        membership = Membership(session, outer)
        if session.takes_strays:
            with self._lock:
                self._open.append(session)
        self.variable.set(membership)
        return membership

    def leave(self, membership: Membership[S]) -> bool:
        """Undo `enter`, also from another context than the one that entered; whether this context had it as current."""
        if membership.session.takes_strays:
            with self._lock:
                self._open.remove(membership.session)
        mine = self.variable.get() is membership
        if mine:
            self.variable.set(membership.outer)
        if membership.session.is_replay:
            self._outlived.add(membership)
        return mine

    def open(self) -> tuple[S, ...]:
        """Return the sessions that are open, but for those that take no strays."""
        return tuple(self._open)

    def hand_on(self, context: Context) -> None:
        """Let what begins in a context belong to the replay in which a stream was made that the caller reads late."""
        membership = UNREAD.membership()
        if membership is not None and context.get(self.variable) is None:
            with suppress(RuntimeError):  # it is entered already
                context.run(self.variable.set, membership)

    def swap(self, membership: Membership[S] | None) -> Membership[S] | None:
        """Give this context another membership, and return the one that was."""
        before = self.variable.get()
        self.variable.set(membership)
        return before

    def origin(self) -> Origin | None:
        """Return the origin of this thread, or of the work in it."""
        return self._origin.get()

    def begin(self, origin: Origin) -> None:
        """Let the caller's thread have an origin until its end."""
        self._origin.set(origin)
        if origin.draws is not None:
            origin.draws.begin()

    @contextmanager
    def beginning(self, origin: Origin) -> Iterator[None]:
        """While inside, the caller's work has an origin."""
        before = self._origin.get()
        self._origin.set(origin)
        try:
            # A pool of another class may have given the work a context of the session, which it draws from.
            with (origin.draws if self.variable.get() is None else None) or nullcontext():
                yield
        finally:
            self._origin.set(before)
            if origin.draws is not None:
                origin.draws.end()


def _first(membership: Membership[S] | None) -> S | None:
    """Return the first session outwards that is open, or that the caller outlives."""
    while membership is not None:
        if not membership.session.closed or membership.is_outlived:
            return membership.session
        membership = membership.outer
    return None


SCOPES: Scopes[Any] = Scopes()
"""The sessions of this process."""

_automatic_for: ContextVar[tuple[object, ...]] = ContextVar("agenttape_automatic_for", default=())


@contextmanager
def taking_part(session: object) -> Iterator[None]:
    """While inside, integrations tape what the user did not tape, as in a session that is automatic.

    For what an integration tapes as a whole and yet runs on every replay, for example a graph. Hold it only while the
    code of the graph runs, never across a `yield`.
    """
    before = _automatic_for.get()
    _automatic_for.set((*before, session))
    try:
        yield
    finally:
        _automatic_for.set(before)  # no token: an abandoned coroutine is closed in the context of its collector


def takes_part(session: object) -> bool:
    """True if this call is inside of something that takes part in the session."""
    return session in _automatic_for.get()
