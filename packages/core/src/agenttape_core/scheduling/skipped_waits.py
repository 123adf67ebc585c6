"""The waits between two attempts that a replay skips: each sets the timer that it set when it was recorded.

Such a timer is one of the program's, and comes in its turn: in the recorded order, or when its loop has nothing else to
do. Nobody waits for it, as the clock of the loop passes to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from agenttape_core.scheduling.cancellation import LoopClock

_WAKE = cast("Any", asyncio.futures)._set_result_unless_cancelled  # noqa: SLF001 - by this callback a timer is known for one of a task that sleeps


async def pass_to_end(loop: Any, seconds: float, works: Callable[[], bool]) -> None:
    """Sleep in no time, by a timer as that of `asyncio.sleep`.

    Args:
        loop: The loop that runs here.
        seconds: The time for which the task would sleep.
        works: Returns true if threads work for the loop.
    """
    woken = loop.create_future()
    timer = loop.call_later(seconds, _WAKE, woken, None)
    try:
        with LoopClock.of(loop).passing_to(seconds, works):
            await woken
    finally:
        timer.cancel()
