"""Threads remember the session that they were started in: one without a context of its own belongs to it.

Every class of threads comes down to `Thread.start`, which is wrapped while sessions are open. The threads of
`ThreadPoolExecutor` serve whoever submits work to them, so it is the work that remembers there: see `thread_pools`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, Thread, Timer
from typing import Any

from agenttape_core.guard.patching import patch
from agenttape_core.session.executed_around import executing
from agenttape_core.session.executed_crossing import ExecutedCrossing
from agenttape_core.session.order.strands import Strand, begun_here, being, starting
from agenttape_core.session.passed_on import is_passed_on
from agenttape_core.session.scopes import Origin
from agenttape_core.session.session import SCOPES, Session
from agenttape_core.session.unread import UNREAD

_POOLS = "concurrent.futures.thread"


def origin_here(*, is_work: bool) -> Origin | None:
    """Return the origin of what the caller begins now; `None` if the caller belongs to no session.

    Args:
        is_work: Whether it is work for a thread pool; else it is a thread.
    """
    membership, above = SCOPES.membership(), SCOPES.origin()
    if membership is None and above is None:
        membership = UNREAD.membership()
    if membership is not None:
        return Origin(membership, executing(), is_work)
    return above._replace(crossing=executing() or above.crossing, is_work=is_work) if above is not None else None


def owning_session() -> Session | None:
    """Return the session that the caller belongs to for certain, by its context or by its origin.

    It may be a replay that has ended: then the caller outlives it.
    """
    return SCOPES.owner()


def session_of_bare_thread() -> Session | None:
    """Return the session whose program has begun the caller's thread, or the work in it, without a context.

    `None` for code that runs in a context of a session, or for a boundary that is being executed.
    """
    origin = SCOPES.origin()
    if origin is None or origin.crossing is not None or SCOPES.membership() is not None or executing() is not None:
        return None
    found: Session | None = origin.membership.innermost()
    return found


def executing_of(session: Session) -> bool:
    """Return True if the caller runs for a boundary that is being executed in a session.

    Code that knows nothing of any session may run for it too, such as the threads of a client that is older than it,
    and a connection that was made for one call and is used by others.
    """
    origin = SCOPES.origin()
    crossing: ExecutedCrossing | None = executing() or (origin.crossing if origin is not None else None)
    if crossing is not None:
        return crossing.session is session and (crossing.reaches_out() or (crossing.is_real and is_passed_on()))
    return owning_session() is None and session.executes_now()


class _Starts:
    """The method that starts threads, wrapped while anybody needs it."""

    def __init__(self) -> None:
        self._uses = 0
        self._lock = Lock()
        self._wrapper = ExitStack()

    def wrap(self) -> None:
        with self._lock:
            if not self._uses:
                patch(self._wrapper, Thread, "__init__", _noting)
                patch(self._wrapper, Thread, "start", _remembering)
            self._uses += 1

    def unwrap(self) -> None:
        with self._lock:
            self._uses -= 1
            if not self._uses:
                self._wrapper.close()


_starts = _Starts()


@contextmanager
def remembering_threads() -> Iterator[None]:
    """Let every thread remember the session that it is started in, while inside."""
    _starts.wrap()
    try:
        yield
    finally:
        _starts.unwrap()


def _noting(real: Callable[..., None]) -> Callable[..., None]:
    """Let a thread know the session that it is made in: it may be started after its end, by somebody else."""

    @functools.wraps(real)
    def __init__(self: Thread, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of that name
        real(self, *args, **kwargs)
        membership = SCOPES.membership()
        if membership is not None:
            vars(self)[_MADE_IN] = membership

    return __init__


_MADE_IN = "_agenttape_made_in"


def _origin_of_making(thread: Thread) -> Origin | None:
    """Return the beginning of a thread that is started where no session is, and was made in a replay that has ended."""
    membership = vars(thread).get(_MADE_IN)
    if membership is None or not membership.session.closed or not membership.session.is_replay:
        return None
    return Origin(membership, None, is_work=False)


def _remembering(real: Callable[[Thread], None]) -> Callable[[Thread], None]:
    @functools.wraps(real)
    def start(self: Thread) -> None:
        serves_a_pool = getattr(getattr(self, "_target", None), "__module__", "") == _POOLS
        origin = None if serves_a_pool else origin_here(is_work=False) or _origin_of_making(self)
        vars(self).pop(_MADE_IN, None)
        if origin is not None:
            _give(self, origin, begun_here(_code_of(self)))
        with starting():
            real(self)

    return start


def _code_of(thread: Any) -> Any:
    """Return the function that a thread runs: that which it was given, or that of its class."""
    given = thread.function if isinstance(thread, Timer) else getattr(thread, "_target", None)
    return given if given is not None else type(thread).run


def _give(thread: Any, origin: Origin, strand: Strand | None) -> None:
    """Let a thread that is about to start begin by setting its origin, in its own context."""
    run = thread.run

    def run_from_origin() -> None:
        vars(thread).pop("run", None)
        with SCOPES.beginning(origin), being(strand):
            run()

    thread.run, thread._agenttape_strand = run_from_origin, strand  # noqa: SLF001 - by our own name
