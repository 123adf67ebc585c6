"""The calls of a replay that wait for their turns in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from agenttape_core.scheduling.delivery_log import Logged
from agenttape_core.scheduling.handles import Posted
from agenttape_core.schema import Sender

_MOST_CANCELS = 10_000
"""Times that a call is cancelled anew before it waits no longer for the moment at which it ended."""


class Wait:
    """A call that waits for its turn.

    Args:
        call: The call.
        sender: Whether it will be answered or was cancelled.
        loop: The loop.
    """

    __slots__ = ("_future", "_is_over", "_loop", "address", "call", "sender")

    def __init__(self, call: Logged, sender: Sender, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.sender = sender
        self.address = call.address
        self._loop = loop
        self._future: asyncio.Future[None] = loop.create_future()
        self._is_over = False

    async def comes(self) -> None:
        """Wait until it is its turn.

        A call that was cancelled may be so again in each round of the loop, as by anyio, and still ends when it did.
        """
        for _ in range(_MOST_CANCELS if self.sender == "cancelled" else 0):
            try:
                await self._future
            except asyncio.CancelledError:
                if self._is_over:
                    return
                self._future = self._loop.create_future()
            else:
                return
        await self._future

    def release(self) -> None:
        """Let it go on, next of all that are ready in a loop of Python's own."""
        self._is_over = True
        if self._future.done():
            return
        ready = getattr(self._loop, "_ready", None)
        before = len(ready) if ready is not None else 0
        self._future.set_result(None)
        if ready is None:
            return
        for place in range(before, len(ready)):
            handle = ready[place]
            if type(handle._callback) is not Posted:  # noqa: SLF001 - that has just come from another thread
                del ready[place]
                ready.appendleft(handle)  # no public name puts a handle first
                return

    def end(self) -> None:
        """Let it go on, as nobody will have its turn come."""
        self._is_over = True
        if not self._future.done() and not self._loop.is_closed():
            self._future.set_result(None)


class Waits:
    """Calls in the order in which they began to wait."""

    def __init__(self) -> None:
        self._all: dict[Wait, None] = {}
        self._places: dict[tuple[Sender, str], dict[Wait, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[Wait]:
        return iter(self._all)

    def add(self, wait: Wait) -> None:
        """Add a call, at the end."""
        self._all[wait] = None
        self._places.setdefault((wait.sender, wait.address), {})[wait] = None

    def discard(self, wait: Wait) -> None:
        """Take out a call, if it is there."""
        if wait in self._all:
            del self._all[wait]
            place = self._places[wait.sender, wait.address]
            del place[wait]
            if not place:
                del self._places[wait.sender, wait.address]

    def first(self) -> Wait:
        """Return the call that has waited longest."""
        return next(iter(self._all))

    def find(self, sender: Sender, address: str) -> Wait | None:
        """Return the call of a recording that has waited longest."""
        return next(iter(self._places.get((sender, address), ())), None)

    def take_all(self) -> list[Wait]:
        """Take out all."""
        found = list(self._all)
        self._all.clear()
        self._places.clear()
        return found


def call_in(loop: Any, function: Callable[[], None]) -> None:
    """Call a function in the thread of a loop: now, if the caller is in it."""
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = not loop.is_running()
    if is_here or loop.is_closed():
        function()
    else:
        with suppress(RuntimeError):  # it has just been closed
            loop.call_soon_threadsafe(function)
