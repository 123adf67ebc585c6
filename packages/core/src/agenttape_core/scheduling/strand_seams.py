"""The places of Python's own where strands wait for each other's end, or end themselves. See `locks` for the others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

from agenttape_core.guard.patching import Wrappers
from agenttape_core.scheduling.giving_up import being_submitted
from agenttape_core.scheduling.locks import see_locks, see_no_locks
from agenttape_core.scheduling.python_parts import WORK_ITEM, is_unknown
from agenttape_core.scheduling.signals import unwatch_signals, watch_signals
from agenttape_core.scheduling.strands import blocking, current_strand


def _joining(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def join(self: Thread, timeout: float | None = None) -> None:
        with blocking(self, timed=timeout is not None):
            real(self, timeout)

    return join


def _shutting_down(real: Callable[..., None]) -> Callable[..., None]:
    """Let the end of a pool be one wait: which of its threads did which work is nothing that anybody can see."""

    @functools.wraps(real)
    def shutdown(self: Any, wait: bool = True, **kwargs: Any) -> None:
        if not wait:
            return real(self, wait, **kwargs)
        with blocking(self):
            return real(self, wait, **kwargs)

    return shutdown


def _ending(real: Callable[..., None]) -> Callable[..., None]:
    """Let the strand of a piece of work end when its future has been told, and those who listen to that."""

    @functools.wraps(real)
    def run(self: Any, *args: Any) -> None:
        outside = current_strand()
        try:
            real(self, *args)
        finally:
            while (strand := current_strand()) is not None and strand is not outside:
                strand.end()

    return run


def _making(real: Callable[..., None]) -> Callable[..., None]:
    """Let a future know its work before a thread of the pool can take that."""

    @functools.wraps(real)
    def make(self: Any, future: Any, *args: Any, **kwargs: Any) -> None:
        if (work := being_submitted()) is not None:
            work.watch(future)
        real(self, future, *args, **kwargs)

    return make


def _wrap(wrappers: Wrappers) -> None:
    wrappers.exchange(see_locks, see_no_locks)
    wrappers.exchange(watch_signals, unwatch_signals)
    wrappers.patch(Thread, "join", _joining)
    wrappers.patch(ThreadPoolExecutor, "shutdown", _shutting_down)
    if WORK_ITEM is None:
        is_unknown("class of the work of pools", "what follows a piece of work isn't in order")
        return
    wrappers.patch(WORK_ITEM, "run", _ending)
    wrappers.patch(WORK_ITEM, "__init__", _making)


TURNS = Wrappers(_wrap)
"""While in use, strands take turns where they wait for each other."""
