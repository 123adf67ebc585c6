"""Calls that are too late: a gate that holds them in threads, and a coroutine that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

LATER = 0.9
"""Seconds, less than those for which a replay waits beyond the time of its recording."""


def _nothing() -> None: ...


async def hang() -> None:
    """Never return. The clock of the loop passes by `LATER`: a timeout fires once its call is here, and not before."""
    loop = asyncio.get_running_loop()
    real = loop.time
    vars(loop)["time"] = lambda: real() + LATER
    await loop.create_future()


class Gate:
    """Holds a call until it is too late: the timeout around it fires as soon as the call has reached the gate.

    In a replay nothing reaches it: then the timeout fires by itself, at a time that no busy machine misses.
    """

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_reached = False
        self._fire: Callable[[], object] = _nothing

    def hold(self) -> None:
        """Hold the thread of a call."""
        self._is_reached = True
        self._fire()
        self._is_open.wait()

    def open(self) -> None:
        """Let all calls go on."""
        self._is_open.set()

    @asynccontextmanager
    async def timeout(self) -> AsyncIterator[None]:
        """Set a timeout around a call.

        Raises:
            TimeoutError: When it has fired.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LATER) as deadline:
            self._fire = lambda: loop.call_soon_threadsafe(deadline.reschedule, loop.time())
            if self._is_reached:
                self._fire()
            yield
