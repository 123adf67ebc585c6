"""Threads remember the session that they were started in: one without a context of its own belongs to it.

Every class of threads comes down to `Thread.start`, which is wrapped while sessions are open. The threads of
`ThreadPoolExecutor` serve whoever submits work to them, so it is the work that remembers there (see `thread_pools`),
the callbacks of its futures, and what a pool begins its threads with.
"""

from __future__ import annotations

import _thread
import functools
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from contextvars import copy_context
from threading import Thread
from typing import Any

from agenttape_core.freeze import BegunWork, current
from agenttape_core.guard.patching import Wrappers
from agenttape_core.scheduling.executing import EXECUTING
from agenttape_core.scheduling.lazy_streams import UNREAD
from agenttape_core.scheduling.loose import ROOT
from agenttape_core.scheduling.older_threads import STRAND, code_of
from agenttape_core.scheduling.python_parts import is_unknown
from agenttape_core.scheduling.scopes import SCOPES, Origin
from agenttape_core.scheduling.strands import (
    Strand,
    begun_here,
    being,
    current_strand,
    in_task,
    is_of_program,
    starting,
)

_POOLS = "concurrent.futures.thread"
_SERVING = frozenset({"multiprocessing.pool"})
"""The modules whose threads serve whoever comes."""


def origin_here(code: Any, *, is_work: bool) -> Origin | None:
    """Return the origin of what the caller begins now; `None` if the caller belongs to no session.

    Args:
        code: The function that it runs; `None` if it serves whoever comes, so that its time and ids stay real.
        is_work: Whether it is work for a thread pool; else it is a thread.
    """
    membership, above = SCOPES.membership(), SCOPES.origin()
    if membership is None and above is None:
        membership = UNREAD.membership()
    if membership is not None:
        return Origin(membership, EXECUTING.get(), is_work, _draws(code))
    if above is None:
        return None
    return above._replace(crossing=EXECUTING.get() or above.crossing, is_work=is_work, draws=_draws(code))


def _draws(code: Any) -> BegunWork | None:
    frozen = current() if code is not None else None
    return frozen.begin_work(code) if frozen is not None else None


def session_of_bare_thread() -> Any:
    """Return the session whose program has begun what runs here without a context: a thread, work in one, a callback.

    `None` for code that runs in a context of a session, or for a boundary that is being executed.
    """
    origin = SCOPES.origin()
    if SCOPES.membership() is not None or EXECUTING.get() is not None:
        return None
    if origin is None:
        strand = current_strand()
        if strand is None or strand.is_real or in_task():
            return None
        if strand.label == ROOT and SCOPES.variable in copy_context():  # what's around a paused session, such as pytest
            return None
        return next((session for session in SCOPES.open() if session.scheduler.threads is strand.strands), None)
    found: Any = origin.membership.innermost() if origin.crossing is None else None
    return found


def _wrap(wrappers: Wrappers) -> None:
    wrappers.patch(Thread, "__init__", _noting)
    wrappers.patch(Thread, "start", _remembering)
    wrappers.patch(Future, "add_done_callback", _calling_back)
    wrappers.patch(_thread, "start_new_thread", _starting_by_hand)


REMEMBERED_THREADS = Wrappers(_wrap)
"""While in use, every thread remembers the session that it is started in."""


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
        if serves_a_pool:
            _let_initializer_remember(self)
        code = code_of(self)
        serves_all = getattr(code, "__module__", "") in _SERVING  # which of its threads does what is decided by speed
        origin = None if serves_a_pool else origin_here(None if serves_all else code, is_work=False)
        origin = origin or (None if serves_a_pool else _origin_of_making(self))
        vars(self).pop(_MADE_IN, None)
        if origin is not None:
            _give(self, origin, begun_here(code))
        with starting():
            real(self)

    return start


class _Once:
    """A function that is called once, in a thread of others, and has an origin there.

    Args:
        function: The function.
        origin: Its origin, which it forgets when it is called: a future keeps its callbacks.
    """

    __slots__ = ("_function", "_origin")

    def __init__(self, function: Callable[..., Any], origin: Origin | None) -> None:
        self._function = function
        self._origin = origin

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        origin, self._origin = self._origin, None
        if origin is None:
            return self._function(*args, **kwargs)
        if SCOPES.membership() is not None:  # called right away, as the future was done
            with origin.draws or nullcontext():
                return self._function(*args, **kwargs)
        with SCOPES.beginning(origin):
            return self._function(*args, **kwargs)


def _calling_back(real: Callable[[Any, Callable[..., Any]], None]) -> Callable[..., None]:
    """Let what the program wants to be called with a result remember the session: a pool calls it after the work."""

    @functools.wraps(real)
    def add_done_callback(self: Any, fn: Callable[..., Any]) -> None:
        origin = origin_here(fn, is_work=True) if is_of_program(fn) else None
        real(self, fn if origin is None else _Once(fn, origin))

    return add_done_callback


def _starting_by_hand(real: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(real)
    def start_new_thread(function: Callable[..., Any], /, *args: Any) -> int:
        return real(_Once(function, origin_here(function, is_work=False)), *args)

    return start_new_thread


def _let_initializer_remember(thread: Any) -> None:
    """Let the function that a pool begins each of its threads with remember the session of whoever needs the thread."""
    match thread._args:  # noqa: SLF001 - a pool tells it to nobody else
        case (pool, work, function, given):
            if callable(function) and (origin := origin_here(function, is_work=True)) is not None:
                thread._args = (pool, work, _Once(function, origin), given)  # noqa: SLF001
        case (_, context, _) if hasattr(context, "initialize"):  # since Python 3.14
            function = getattr(context, "initializer", None)
            if callable(function) and (origin := origin_here(function, is_work=True)) is not None:
                context.initializer = _Once(function, origin)
        case _:
            is_unknown("way to begin the threads of pools", "their initializers have real times, ids and connections")


def _give(thread: Any, origin: Origin, strand: Strand | None) -> None:
    """Let a thread that is about to start begin by setting its origin, in its own context."""
    run = thread.run

    def run_from_origin() -> None:
        vars(thread).pop("run", None)
        SCOPES.begin(origin)  # also for what follows: hooks for errors, and what is deleted with the thread
        try:
            with being(strand):
                run()
        finally:
            if origin.draws is not None:
                origin.draws.end()

    thread.run = run_from_origin
    setattr(thread, STRAND, strand)
    if hasattr(thread, "_context"):  # since Python 3.14, its code runs in a context within that of what follows
        begin = thread._bootstrap_inner  # noqa: SLF001 - nothing public is called there

        def begin_from_origin() -> None:
            vars(thread).pop("_bootstrap_inner", None)
            SCOPES.begin(origin)
            begin()

        thread._bootstrap_inner = begin_from_origin  # noqa: SLF001
