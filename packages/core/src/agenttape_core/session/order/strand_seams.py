"""The places of Python's own where strands wait for each other, or end.

Nearly all waits of threads come down to `Condition.wait`: `Event`, `Queue`, `Semaphore`, `Barrier`, `Future.result`,
`concurrent.futures.wait`. It makes a lock for each wait, and waits until somebody releases that; the lock of the
condition is taken again only afterwards, so whoever waits for the turn there holds no lock.
"""

from __future__ import annotations

import _thread
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pools
from contextlib import ExitStack, contextmanager
from threading import Lock, Thread
from typing import Any

from agenttape_core.guard.replaced import replaced
from agenttape_core.session.order.strands import blocking, current_strand


class _WaitersLock:
    """The lock of one wait of `Condition.wait`: it is acquired at once, and then a second time, to wait."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._waits = False

    def acquire(self, blocks: bool = True, timeout: float = -1) -> bool:
        """Acquire it; the second time, others have the turn until it is released."""
        if not self._waits:
            self._waits = True
            return self._lock.acquire()
        if not blocks:
            return self._lock.acquire(blocks)
        with blocking(timed=timeout >= 0):
            return self._lock.acquire(blocks, timeout) if timeout >= 0 else self._lock.acquire()

    def release(self) -> None:
        """Wake the one who waits."""
        self._lock.release()


_WAIT = threading.Condition.wait.__code__


def _allocate_lock() -> Any:
    """Make a lock for `threading`, which has others than those of waits: in the child of a fork, for example."""
    if current_strand() is not None and sys._getframe(1).f_code is _WAIT:  # noqa: SLF001 - the only way to tell
        return _WaitersLock()
    return _thread.allocate_lock()


def _joining(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def join(self: Thread, timeout: float | None = None) -> None:
        with blocking(timed=timeout is not None):
            real(self, timeout)

    return join


def _shutting_down(real: Callable[..., None]) -> Callable[..., None]:
    """Let the end of a pool be one wait: which of its threads did which work is nothing that anybody can see."""

    @functools.wraps(real)
    def shutdown(self: Any, wait: bool = True, **kwargs: Any) -> None:
        if not wait:
            return real(self, wait, **kwargs)
        with blocking():
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


class _Seams:
    def __init__(self) -> None:
        self._uses = 0
        self._lock = Lock()
        self._stack = ExitStack()

    def patch(self) -> None:
        with self._lock:
            self._uses += 1
            if self._uses == 1:
                self._stack.enter_context(replaced(threading, "_allocate_lock", _allocate_lock))
                self._stack.enter_context(replaced(Thread, "join", _joining(Thread.join)))
                shutdown = _shutting_down(ThreadPoolExecutor.shutdown)
                self._stack.enter_context(replaced(ThreadPoolExecutor, "shutdown", shutdown))
                work: Any = pools._WorkItem  # noqa: SLF001 - nothing public is called when a future has been told
                self._stack.enter_context(replaced(work, "run", _ending(work.run)))

    def undo(self) -> None:
        with self._lock:
            self._uses -= 1
            if not self._uses:
                self._stack.close()


_seams = _Seams()


@contextmanager
def in_turns() -> Iterator[None]:
    """Let strands take turns where they wait for each other, while inside."""
    _seams.patch()
    try:
        yield
    finally:
        _seams.undo()
