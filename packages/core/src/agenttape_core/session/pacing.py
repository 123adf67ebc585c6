"""The waits of a replay that takes as long as its recording took."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic, sleep

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import sleep_in_virtual_time, timers_of_ours, trio_here, virtual_loop
from agenttape_core.schema import Timing


class Waiter:
    """Waits for real. Our waits take no frozen time, just like the calls that they replace."""

    def now(self) -> float:
        """Return the seconds of a clock that is never frozen."""
        return monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait in this thread."""
        sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait in this task, until it is cancelled. `asyncio.sleep` would move the frozen clock."""
        if (trio := trio_here()) is not None:
            await trio.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        with timers_of_ours():
            timer = loop.call_later(seconds, woken.set_result, None)
        try:
            await woken
        finally:
            timer.cancel()


class VirtualWaiter(Waiter):
    """Waits in the virtual time of an event loop: see `virtual_time`."""

    def now(self) -> float:
        """Return the time of the loop that the caller runs in, or works for."""
        moment: float = virtual_loop().time()
        return moment

    def sleep(self, seconds: float) -> None:
        """Let the time pass: right away if the caller blocks a loop, and together with the time of that loop."""
        sleep_in_virtual_time(seconds)


waiter = Waiter()  # the waiter of every replay; tests put another one in its place


VIRTUAL = VirtualWaiter()  # the waiter of every replay in virtual time


class Tempo(NamedTuple):
    """The speed of a replay, and the times that it scales."""

    scale: float  # the factor of the recorded times: 1 keeps them, 0.5 is twice as fast
    timings: Mapping[int, Timing]  # the recorded times, by the numbers of their interactions
    is_virtual: bool = False  # whether the time passes without anybody waiting


class Paced:
    """A recording that is replayed in the time it took, counted from when this is made.

    The time that a reader takes between two chunks is part of the recording; so each chunk has a due time, and a late
    reader doesn't wait. Without known times, it's replayed right away; all of it is `late` so many seconds.
    """

    __slots__ = ("_began", "_due", "_waiter")

    def __init__(self, tempo: Tempo, number: int, late: float = 0.0) -> None:
        timing = tempo.timings.get(number)
        times = ([0.0] if late else []) if timing is None else [*timing.offsets_ms, timing.duration_ms]
        self._due = [late + ms / 1000 * tempo.scale for ms in times]
        self._waiter = VIRTUAL if tempo.is_virtual else waiter
        self._began = self._waiter.now()

    def wait(self, chunk: int = -1) -> None:
        """Wait until a chunk is due, or the end, if there's no such chunk."""
        left = self._left(chunk)
        if left > 0:
            self._waiter.sleep(left)

    async def await_(self, chunk: int = -1) -> None:
        """Wait like `wait`, in a task."""
        left = self._left(chunk)
        if left > 0:
            await self._waiter.asleep(left)

    def _left(self, chunk: int) -> float:
        if not self._due:
            return 0.0
        due = self._due[chunk] if chunk < len(self._due) else self._due[-1]
        return self._began + due - self._waiter.now()
