"""Waits for rate limiters that are left to the leaf calls which these let through, where they are executed for real."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

from agenttape_core.locks import Lock


class LimiterWait:
    """A wait for a rate limiter that the next leaf call takes over. Thread-safe.

    Args:
        acquire: Waits until the limiter lets a call through, in the shape of the call: it returns, or is awaited.
    """

    def __init__(self, acquire: Callable[[], Any]) -> None:
        self._acquire = acquire
        self._is_left = True
        self._lock = Lock()

    def take(self) -> Callable[[], Any] | None:
        """Return what waits; `None` if another call has taken it, as of tasks that began with the same context."""
        with self._lock:
            is_left, self._is_left = self._is_left, False
        return self._acquire if is_left else None


WAIT: ContextVar[LimiterWait | None] = ContextVar("agenttape_limiter_wait", default=None)


def leave_to_call(acquire: Callable[[], Any]) -> None:
    """Leave it to the next leaf call in this context to wait for a rate limiter.

    Args:
        acquire: Waits until the limiter lets a call through.
    """
    WAIT.set(LimiterWait(acquire))


def _taken() -> Callable[[], Any] | None:
    wait = WAIT.get()
    if wait is None:
        return None
    WAIT.set(None)
    return wait.take()


def waiting_first(real: Callable[[], Any]) -> Callable[[], Any]:
    """Return a real call that waits for the rate limiter before, if this was left to it."""
    acquire = _taken()
    if acquire is None:
        return real

    def call() -> Any:
        acquire()
        return real()

    return call


def awaiting_first(real: Callable[[], Any]) -> Callable[[], Any]:
    """Do the same for a call that is awaited."""
    acquire = _taken()
    if acquire is None:
        return real

    async def call() -> Any:
        await acquire()
        return await real()

    return call


def waiting_before_chunks(real: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    """Do the same for a call that yields."""
    acquire = _taken()
    if acquire is None:
        return real

    def call() -> Iterator[Any]:
        acquire()
        return (yield from real())

    return call


def awaiting_before_chunks(real: Callable[[], AsyncIterator[Any]]) -> Callable[[], AsyncIterator[Any]]:
    """Do the same for a call that yields asynchronously."""
    acquire = _taken()
    if acquire is None:
        return real

    async def call() -> AsyncIterator[Any]:
        await acquire()
        chunks = real()
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            if (close := getattr(chunks, "aclose", None)) is not None:
                await close()

    return call
