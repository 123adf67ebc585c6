"""Work in thread pools: it keeps the session in which it was submitted, and may get a separate branch.

The branches of concurrent work are matched in the order of submission.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from contextvars import Context
from typing import Any

from agenttape_core.freeze import current
from agenttape_core.guard.handovers import is_for_interpreters
from agenttape_core.guard.patching import Wrappers
from agenttape_core.matching import Branch, current_branch, enter_branch
from agenttape_core.scheduling import REMEMBERED_THREADS, SCOPES, UNREAD, Origin, Work, origin_here, submitting
from agenttape_core.session.context import current_session
from agenttape_core.session.positions import here


class _Wrapped:
    """A class of pools, whose `submit` is wrapped while the wrappers are in place."""

    def __init__(self, cls: type[ThreadPoolExecutor], wrappers: Wrappers, *, in_loops: bool) -> None:
        self.wrappers = wrappers
        self.forks = 0  # the number of users that give each piece of work a separate branch
        self.in_loops = in_loops  # true if the work is concurrent even if an event loop runs
        self.is_base = cls is ThreadPoolExecutor  # true for the class whose `submit` the other classes call
        wrappers.patch(cls, "submit", lambda real: _remembering(real, self))


REMEMBERED_WORK = REMEMBERED_THREADS
"""While in use, threads and pieces of work of thread pools remember the session that they are begun in."""
_wrapped: dict[type, _Wrapped] = {ThreadPoolExecutor: _Wrapped(ThreadPoolExecutor, REMEMBERED_WORK, in_loops=False)}


class _Forking:
    """Classes of pools whose work gets separate branches while inside; it may be entered again when it has been left.

    `classes` has whether the work of each is concurrent even if an event loop runs.
    """

    def __init__(self, classes: dict[type[ThreadPoolExecutor], bool]) -> None:
        self._classes = classes

    def __enter__(self) -> None:
        for cls, in_loops in self._classes.items():
            wrapped = _wrapped.get(cls) or _wrapped.setdefault(cls, _Wrapped(cls, Wrappers(), in_loops=in_loops))
            with wrapped.wrappers.lock:
                wrapped.wrappers.__enter__()
                wrapped.forks += 1

    def __exit__(self, *_: object) -> None:
        for cls in reversed(self._classes):
            wrapped = _wrapped[cls]
            with wrapped.wrappers.lock:
                wrapped.forks -= 1
                wrapped.wrappers.__exit__()


def forking_pools(*classes: type[ThreadPoolExecutor]) -> AbstractContextManager[None]:
    """Give each piece of work of a thread pool its own branch while inside, at `submit`, where the order is certain.

    Several integrations may do so in parallel; the pools are wrapped once. Work that an event loop submits to a bare
    `ThreadPoolExecutor` gets no branch, because the loop's task waits for it.

    Args:
        classes: Classes of pools that a framework uses for its own concurrent work, with or without a loop. Bare pools
            are always among those that are wrapped.

    Returns:
        A context manager, which may be entered again when it has been left.
    """
    return _Forking({**dict.fromkeys(classes, True), ThreadPoolExecutor: False})


def _remembering(real: Callable[..., Any], wrapped: _Wrapped) -> Any:
    @functools.wraps(real)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if not wrapped.wrappers.is_in or is_for_interpreters(self):  # where it's copied, and nothing of ours can be
            return real(self, fn, *args, **kwargs)
        if wrapped.is_base:
            work = Work(self, functools.partial(fn, *args) if args else fn)
            with submitting(work):
                future = begin(self, fn, functools.partial(work.do, fn), args, kwargs)
            work.watch(future)
            return future
        return begin(self, fn, fn, args, kwargs)

    def begin(self: Any, fn: Callable[..., Any], work: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        fork = _fork(self, wrapped)
        context = getattr(fn.func if isinstance(fn, functools.partial) else fn, "__self__", None)
        if isinstance(context, Context):  # the work brings its own context
            if UNREAD:
                SCOPES.hand_on(context)
            if fork is not None:
                with suppress(RuntimeError):  # a context that is in use already, for several pieces of work
                    context.run(enter_branch, fork)
            frozen = current()
            if frozen is not None:
                work = _then(work, frozen.prepare(context, args[0] if args else fn))
            return real(self, work, *args, **kwargs)
        origin = origin_here(fn, is_work=True)
        if fork is None and origin is None:
            return real(self, work, *args, **kwargs)
        return real(self, _FromOrigin(work, fork, origin), *args, **kwargs)

    submit.wrapped = wrapped  # type: ignore[attr-defined]
    return submit


def _then(work: Callable[..., Any], ended: Callable[[], None]) -> Callable[..., Any]:
    def to_the_end(*args: Any, **kwargs: Any) -> Any:
        try:
            return work(*args, **kwargs)
        finally:
            ended()

    return to_the_end


def _fork(pool: Any, wrapped: _Wrapped) -> Branch | None:
    """Return the branch for a piece of work, if it gets a separate one."""
    branch = current_branch()
    if branch is None or not wrapped.forks or not (wrapped.in_loops or _is_bare(pool)):
        return None
    session = current_session()
    return here(session).fork(branch) if session is not None else None


def _is_bare(pool: Any) -> bool:
    """Return whether a pool is used by plain threaded code: an event loop uses one for work that it then waits for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        own: _Wrapped | None = getattr(type(pool).submit, "wrapped", None)
        return own is None or not own.in_loops  # a class of its own has forked already
    return False


class _FromOrigin:
    """A piece of work with the session that it was submitted in, and with its branch if it has a separate one."""

    def __init__(self, work: Callable[..., Any], branch: Branch | None, origin: Origin | None) -> None:
        self._work = work
        self._branch = branch
        self._origin = origin

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            if self._branch is not None:
                stack.callback(enter_branch, current_branch())
                enter_branch(self._branch)
            if self._origin is not None:
                stack.enter_context(SCOPES.beginning(self._origin))
            return self._work(*args, **kwargs)
