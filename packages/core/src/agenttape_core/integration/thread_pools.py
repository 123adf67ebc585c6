"""Branches of concurrent work in thread pools, told apart by the order in which the work is submitted."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context
from threading import Lock
from typing import Any

from agenttape_core.matching import Branch, current_branch, enter_branch
from agenttape_core.session import current_session, here

_MARK = "__agenttape_forks__"
_lock = Lock()
_forked: dict[type, tuple[int, Any]] = {}
"""For each class whose `submit` is wrapped: how many times, and the method that it had before."""


@contextmanager
def forking_pools(*classes: type[ThreadPoolExecutor]) -> Iterator[None]:
    """Give each piece of work of a thread pool its own branch while inside, at `submit`, where the order is certain.

    Several integrations may do so at once; the pools are wrapped once. Work that an event loop submits to a bare
    `ThreadPoolExecutor` gets no branch, because the loop's task waits for it.

    Args:
        classes: Classes of pools that a framework uses for concurrent work of its own, loop or no loop. Bare pools
            are always among those that are wrapped.
    """
    wrapped = [(cls, True) for cls in classes] + [(ThreadPoolExecutor, False)]
    with _lock:
        for cls, in_loops in wrapped:
            count, real = _forked.get(cls, (0, None))
            if count == 0:
                real = vars(cls).get("submit")
                cls.submit = _forking(cls.submit, in_loops=in_loops)  # type: ignore[method-assign]
            _forked[cls] = count + 1, real
    try:
        yield
    finally:
        with _lock:
            for cls, _ in wrapped:
                _unwrap(cls)


def _unwrap(cls: Any) -> None:
    count, real = _forked.pop(cls)
    if count > 1:
        _forked[cls] = count - 1, real
    elif real is None:
        del cls.submit
    else:
        cls.submit = real


def _forking(real: Callable[..., Any], *, in_loops: bool) -> Any:
    @functools.wraps(real)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        branch, session = current_branch(), current_session()
        if branch is None or session is None or not (in_loops or _is_bare(self)):
            return real(self, fn, *args, **kwargs)
        fork = here(session).fork(branch)
        context = getattr(fn.func if isinstance(fn, functools.partial) else fn, "__self__", None)
        if isinstance(context, Context):  # the work brings its own context
            with suppress(RuntimeError):  # a context that is in use already, for several pieces of work
                context.run(enter_branch, fork)
            return real(self, fn, *args, **kwargs)
        return real(self, functools.partial(_call_in_branch, fn, fork), *args, **kwargs)

    setattr(submit, _MARK, in_loops)
    return submit


def _is_bare(pool: Any) -> bool:
    """Return whether a pool is used by plain threaded code: an event loop uses one for work that it then waits for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return not getattr(type(pool).submit, _MARK, False)  # a class of its own has forked already
    return False


def _call_in_branch(fn: Callable[..., Any], branch: Branch, /, *args: Any, **kwargs: Any) -> Any:
    before = current_branch()
    enter_branch(branch)
    try:
        return fn(*args, **kwargs)
    finally:
        enter_branch(before)
