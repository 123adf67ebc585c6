"""The order in which concurrent calls ended, so that a replay answers them in the order of the recording.

To some programs it does not matter which answer comes first. Others, for example the workflows of LlamaIndex, keep
answers in the order in which they came, and send them along with the next request. Calls that are awaited and are
served end in the recorded order. It is kept for calls that overlapped, and for no others: a run in which one call
follows the other has no turns.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator, Iterable, Sequence
from threading import Lock
from time import monotonic

_SETTLING = 40
"""Rounds of the event loop that the reader of an answer gets before the next one comes: to put it where it wants it."""
_GRACE = 1.0
"""Seconds for which a call waits for its turn beyond the time that it took: a slower machine."""


class Turns:
    """The turns of one session. Thread-safe.

    Args:
        recorded: Groups of addresses of calls that overlapped, each in the order in which they ended.
    """

    def __init__(self, recorded: Iterable[Sequence[str]] = ()) -> None:
        self._are_kept = False
        self._groups = [list(group) for group in recorded]
        self._place = {address: (group, at) for group in self._groups for at, address in enumerate(group)}
        self._passed: set[str] = set()
        self._ended: list[tuple[float, float, str]] = []
        self._waiting: list[Callable[[], None]] = []
        self._lock = Lock()

    # -- recording ---------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Record the turns of what is executed from now on: the order of answers matters to the program."""
        self._are_kept = True

    def ended(self, address: str, began: float, ended: float) -> None:
        """Note a call that was executed.

        Args:
            address: Where it stands.
            began: When it began, in seconds of a clock that runs.
            ended: When it ended.
        """
        if self._are_kept:
            with self._lock:
                self._ended.append((began, ended, address))
        self.passed(address)

    def groups(self) -> list[list[str]]:
        """Return the turns of what was executed, after those that were recorded before."""
        groups: list[list[tuple[float, str]]] = []
        until = float("-inf")
        for began, ended, address in sorted(self._ended):
            if began >= until:
                groups.append([])
            groups[-1].append((ended, address))
            until = max(until, ended)
        own = [[address for _, address in sorted(group)] for group in groups if len(group) > 1]
        mine = {address for group in own for address in group}
        return [group for group in self._groups if mine.isdisjoint(group)] + own

    # -- serving -----------------------------------------------------------------------------------------------

    def passed(self, address: str) -> None:
        """Note that a call has been answered, and let those go on whose turn it is now."""
        if not self._place:
            return
        with self._lock:
            self._passed.add(address)
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    async def wait(self, address: str, seconds: float) -> None:
        """Wait until it is the turn of a call.

        Args:
            address: Where it stands.
            seconds: The time it took in the recording; calls that do not come in this run are waited for no longer.
        """
        missing = self._missing(address)
        if not missing:
            return
        deadline = monotonic() + seconds + _GRACE
        while missing and (left := deadline - monotonic()) > 0:
            await self._next(left)
            missing = self._missing(address)
        for gone in missing:
            self.passed(gone)
        for _ in range(_SETTLING):
            await _round()

    def _missing(self, address: str) -> list[str]:
        group, at = self._place.get(address, ([], 0))
        return [earlier for earlier in group[:at] if earlier not in self._passed]

    async def _next(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        with self._lock:
            self._waiting.append(lambda: _call_soon(loop, wake))
        timer = loop.call_later(seconds, wake)
        try:
            await woken
        finally:
            timer.cancel()


def _call_soon(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(wake)


@types.coroutine
def _round() -> Generator[None, None, None]:
    """Let everything else run that is ready. `asyncio.sleep` would move the frozen clock."""
    yield
