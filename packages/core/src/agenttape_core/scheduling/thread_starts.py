"""Let threads, and work for thread pools, belong to the session that began them: they have no context that tells.

Every class of threads comes down to `Thread.start`, which is wrapped while sessions are open. The threads of a
`ThreadPoolExecutor` serve any code that submits work to them, so there it's the work that remembers its session, the
callbacks of its futures, and the function with which a pool begins its threads.

A piece of work also knows whether the program still waits for it: see `late`.
"""

from __future__ import annotations

import _thread
import asyncio
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from contextvars import Context, copy_context
from threading import Thread
from typing import Any
from weakref import ref

from agenttape_core.freeze import BegunWork, current
from agenttape_core.guard.patching import Wrappers
from agenttape_core.locks import Lock
from agenttape_core.scheduling.executing import EXECUTING, runs_outside_program
from agenttape_core.scheduling.lazy_streams import UNREAD
from agenttape_core.scheduling.participants import (
    OVER,
    Participant,
    begun_here,
    being,
    current_participant,
    in_task,
    is_of_program,
    starting,
)
from agenttape_core.scheduling.python_parts import WORK_ITEM, is_unknown
from agenttape_core.scheduling.scopes import SCOPES, Origin
from agenttape_core.scheduling.unordered import PARTICIPANT, ROOT, code_of


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # none runs in this thread
        return None


_POOLS = "concurrent.futures.thread"
_SERVING = frozenset({"multiprocessing.pool"})
"""The modules whose threads serve whoever comes; which of its threads does what is decided by speed."""


def _serves_all(code: Any) -> bool:
    return getattr(code, "__module__", "") in _SERVING


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
    return above._replace(session_call=EXECUTING.get() or above.session_call, is_work=is_work, draws=_draws(code))


def _draws(code: Any) -> BegunWork | None:
    frozen = current() if code is not None else None
    return frozen.begin_work(code) if frozen is not None else None


def session_of_bare_thread() -> Any:
    """Return the session whose program has begun what runs here without a context: a thread, work in one, a callback.

    The only open session also has the threads of pools that are older and serve whoever comes. `None` for code that
    runs in a context of a session, or for a boundary that is being executed, or for code that passes an answer on.
    """
    origin = SCOPES.origin()
    work = _works.work
    if SCOPES.membership() is not None or EXECUTING.get() is not None or (work is not None and work.is_inside):
        return None
    if origin is None:
        participant = current_participant()
        if participant is None:
            sessions = SCOPES.open()
            return sessions[0] if len(sessions) == 1 and _serves_all(code_of(threading.current_thread())) else None
        if participant.is_real or in_task():
            return None
        if (
            participant.label == ROOT and SCOPES.variable in copy_context()
        ):  # what's around a paused session, such as pytest
            return None
        return next((session for session in SCOPES.open() if session.scheduler.threads is participant.threads), None)
    found: Any = origin.membership.innermost() if origin.session_call is None else None
    return found


def _wrap(wrappers: Wrappers) -> None:
    wrappers.patch(Thread, "__init__", _noting)
    wrappers.patch(Thread, "start", _remembering)
    wrappers.patch(Future, "add_done_callback", _calling_back)
    wrappers.patch(_thread, "start_new_thread", _starting_by_hand)


REMEMBERED_THREADS = Wrappers(_wrap)
"""While in use, every thread remembers the session that it is started in."""


def _noting(real: Callable[..., None]) -> Callable[..., None]:
    """Let a thread know the session that it is made in: it may be started after its end, by other code."""

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
        origin = None if serves_a_pool else origin_here(None if _serves_all(code) else code, is_work=False)
        origin = origin or (None if serves_a_pool else _origin_of_making(self))
        vars(self).pop(_MADE_IN, None)
        if origin is not None:
            _give(self, origin, begun_here(code))
        if _INHERITS and self._context is None:  # type: ignore[attr-defined] # there's no public name
            self._context = _without_ours()  # type: ignore[attr-defined]
        with starting():
            real(self)

    return start


_INHERITS = bool(getattr(sys.flags, "thread_inherit_context", False))
"""True if a thread starts with the context of its maker, as in builds of Python without the GIL."""


def _without_ours() -> Context:
    """Return a copy of the caller's context without our variables: a thread, also of a pool, has only its origin."""
    context = Context()
    for variable, value in copy_context().items():
        if not variable.name.startswith("agenttape"):
            context.run(variable.set, value)
    return context


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
    match thread._args:  # noqa: SLF001 - there's no public name
        case (pool, work, function, given):
            if callable(function) and (origin := origin_here(function, is_work=True)) is not None:
                thread._args = (pool, work, _Once(function, origin), given)  # noqa: SLF001
        case (_, context, _) if hasattr(context, "initialize"):  # since Python 3.14
            function = getattr(context, "initializer", None)
            if callable(function) and (origin := origin_here(function, is_work=True)) is not None:
                context.initializer = _Once(function, origin)
        case _:
            is_unknown("way to begin the threads of pools", "their initializers have real times, ids and connections")


def _give(thread: Any, origin: Origin, participant: Participant | None) -> None:
    """Let a thread that is about to start begin by setting its origin, in its own context."""
    run = thread.run

    def run_from_origin() -> None:
        vars(thread).pop("run", None)
        SCOPES.begin(origin)  # also for what follows: hooks for errors, and what is deleted with the thread
        try:
            with being(participant):
                run()
        finally:
            if origin.draws is not None:
                origin.draws.end()

    thread.run = run_from_origin
    setattr(thread, PARTICIPANT, participant)
    if hasattr(thread, "_context"):  # since Python 3.14, its code runs in a context within that of what follows
        begin = thread._bootstrap_inner  # noqa: SLF001 - nothing public is called there

        def begin_from_origin() -> None:
            vars(thread).pop("_bootstrap_inner", None)
            SCOPES.begin(origin)
            begin()

        thread._bootstrap_inner = begin_from_origin  # noqa: SLF001


class Work:
    """A piece of work of a thread pool. Thread-safe.

    Args:
        pool: The pool.
        code: The function that does it.
    """

    def __init__(self, pool: Any, code: Any) -> None:
        self._pool = ref(pool)
        self.participant: Participant | None = None
        self._loop = ref(loop) if (loop := _loop_here()) is not None else None
        self._outer = _works.work
        self.room: Any = _awaiting.room
        """The event loop that waits for its result, as the session sees it."""
        self.participant = begun_here(code, self._pool)
        self.is_inside: bool = runs_outside_program() or (self._outer is not None and self._outer.is_inside)
        """True if it was submitted by the code of a call that is executed for real, and no part of the program."""
        self._is_abandoned = self._has_begun = False
        self._listeners: list[Callable[[], None]] = []
        self._lock = Lock()

    @property
    def pool(self) -> Any:
        """The pool whose thread does it."""
        return self._pool()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that has submitted it, and mostly waits for it."""
        return self._loop() if self._loop is not None else None

    @property
    def is_abandoned(self) -> bool:
        """True if the program no longer waits for it, or for work that it is part of."""
        return any(work._is_abandoned for work in self.outwards())  # noqa: SLF001 - of its own class

    def outwards(self) -> Iterator[Work]:
        """Yield it, then the work that has submitted it, and so on."""
        work: Work | None = self
        while work is not None:
            yield work
            work = work._outer  # noqa: SLF001 - of its own class

    def abandon(self) -> None:
        """Note that whoever waited for it does so no more."""
        with self._lock:
            self._is_abandoned = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this when it is given up, or right away if it is already."""
        with self._lock:
            if not self._is_abandoned:
                self._listeners.append(listener)
                return
        listener()

    def begin(self) -> None:
        """Begin it in the thread of the caller, once it has the turn. It ends when its future has been told."""
        if self.participant is not None and not self._has_begun and self.participant.state != OVER:
            self._has_begun = True
            self.participant.begin()

    def do(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do it, in the thread of the caller."""
        before, _works.work = _works.work, self
        self.begin()
        try:
            return work(*args, **kwargs)
        finally:
            if self.participant is not None:
                self.participant.threads.wait_for_turn()
                if WORK_ITEM is None:
                    self.participant.end()
            _works.work = before
            self._is_abandoned, self._outer = self.is_abandoned, None  # work that submits itself again makes no chain

    def drop(self) -> None:
        """Note that it was cancelled, and will never be done."""
        if self.participant is not None and self.participant.state != OVER:
            self.participant.threads.cancel(self.participant)

    def watch(self, future: Any) -> None:
        """Learn from the future of the work whether it is given up."""
        if type(future) is Future:  # other classes keep their own ways
            vars(future)["_agenttape_work"] = self
            future.__class__ = _Awaited


class _Awaiting(threading.local):
    room: Any = None


_awaiting = _Awaiting()


@contextmanager
def awaited_by_loop(room: Any) -> Iterator[None]:
    """Note that an event loop waits for the work that is submitted inside.

    Args:
        room: The loop, as the session sees it: see `loops`.
    """
    _awaiting.room = room
    try:
        yield
    finally:
        _awaiting.room = None


class _Works(threading.local):
    work: Work | None = None
    submitted: Work | None = None


_works = _Works()


def current_work() -> Work | None:
    """Return the work of a thread pool that the caller's thread does."""
    return _works.work


@contextmanager
def submitting(work: Work) -> Iterator[None]:
    """While inside, a piece of work is submitted to its pool by the thread of the caller."""
    before, _works.submitted = _works.submitted, work
    try:
        yield
    finally:
        _works.submitted = before


def being_submitted() -> Work | None:
    """Return the work that the thread of the caller submits; `None` if its future is known already."""
    work, _works.submitted = _works.submitted, None
    return work


class _Awaited(Future[Any]):
    """A future that tells its work when whoever waits for it gives it up.

    In a set, the futures of a session are in the order in which their work was submitted. `concurrent.futures` makes
    sets of those that it is given.
    """

    _agenttape_work: Work

    def __hash__(self) -> int:
        participant = self._agenttape_work.participant
        return participant.number if participant is not None else super().__hash__()

    def set_running_or_notify_cancel(self) -> bool:
        self._agenttape_work.begin()
        return super().set_running_or_notify_cancel()

    def cancel(self) -> bool:
        work = self._agenttape_work
        is_cancelled = super().cancel()
        if is_cancelled:
            work.drop()
        elif not self.done():
            work.abandon()
        return is_cancelled

    def result(self, timeout: float | None = None) -> Any:
        with self._abandoning():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        with self._abandoning():
            return super().exception(timeout)

    @contextmanager
    def _abandoning(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            if error is not getattr(self, "_exception", None):  # that is the error of the work
                self._agenttape_work.abandon()
            raise
