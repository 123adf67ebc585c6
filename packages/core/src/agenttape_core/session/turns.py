"""The order in which concurrent calls ended, so that a replay answers them in the order of the recording.

To some programs it does not matter which answer comes first. Others, for example the workflows of LlamaIndex, keep
answers in the order in which they came, and send them along with the next request. Calls that are awaited and are
served end in the recorded order. It is kept for calls that overlapped, and for no others: a run in which one call
follows the other has no turns. Where one of them was cancelled, it is kept for every program: which one is cancelled
depends on which one ended first.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator, Iterable, Sequence
from threading import Lock
from time import monotonic
from typing import NamedTuple

from agenttape_core.session.cancellation import real_timer

_SETTLING = 40
"""Rounds of the event loop that the reader of an answer gets before the next one comes: to put it where it wants it."""
_GRACE = 1.0
"""Seconds for which a call waits for its turn beyond the time that it took: a slower machine."""


class Ended(NamedTuple):
    """A call that was executed.

    Args:
        began: When it began, in seconds of a clock that runs.
        ended: When it ended.
        address: Where it stands.
        was_cancelled: Whether it was cancelled.
    """

    began: float
    ended: float
    address: str
    was_cancelled: bool = False


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
        self._held: set[str] = set()
        self._ended: dict[int | None, list[Ended]] = {}
        """The calls that were executed, by the number of the call around them: they overlap with each other."""
        self._waiting: list[Callable[[], None]] = []
        self._lock = Lock()

    # -- recording ---------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Record the turns of what is executed from now on: the order of answers matters to the program."""
        self._are_kept = True

    def ended(self, call: Ended, inside: int | None = None) -> None:
        """Note a call that was executed.

        Args:
            call: The call.
            inside: The number of the call that was executing around it, if there was one.
        """
        with self._lock:
            self._ended.setdefault(inside, []).append(call)
        self.passed(call.address)

    def forget(self) -> None:
        """Forget what was executed so far: it is with the sink, and nobody will ask for its turns."""
        with self._lock:
            self._ended.clear()

    def groups(self) -> list[list[str]]:
        """Return the turns of what was executed, after those that were recorded before."""
        own = [
            [call.address for call in sorted(group, key=_end)]
            for calls in self._ended.values()
            for group in _overlapping(calls)
            if len(group) > 1 and (self._are_kept or any(call.was_cancelled for call in group))
        ]
        mine = {address for group in own for address in group}
        return [group for group in self._groups if mine.isdisjoint(group)] + own

    # -- serving -----------------------------------------------------------------------------------------------

    def passed(self, address: str) -> None:
        """Note that a call has been answered, and let those go on whose turn it is now."""
        if not self._place:
            return
        with self._lock:
            self._passed.add(address)
            self._held.discard(address)
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def held(self, address: str) -> None:
        """Note that a call waits for the program to end it, so that those after it do not give it up."""
        with self._lock:
            self._held.add(address)

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
        while missing and ((left := deadline - monotonic()) > 0 or not self._held.isdisjoint(missing)):
            await self._next(max(left, _GRACE))
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
        timer = real_timer(loop, seconds, wake)
        try:
            await woken
        finally:
            timer.cancel()


def _end(call: Ended) -> float:
    return call.ended


def _overlapping(calls: Iterable[Ended]) -> list[list[Ended]]:
    """Return calls in groups, so that none overlaps one of another group."""
    groups: list[list[Ended]] = []
    until = float("-inf")
    for call in sorted(calls):
        if call.began >= until:
            groups.append([])
        groups[-1].append(call)
        until = max(until, call.ended)
    return groups


def _call_soon(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(wake)


@types.coroutine
def _round() -> Generator[None, None, None]:
    """Let everything else run that is ready. `asyncio.sleep` would move the frozen clock."""
    yield
