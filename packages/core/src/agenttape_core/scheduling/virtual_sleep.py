"""The waits of served calls in virtual time: of code that blocks its loop, and of a thread that works for one."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.scheduling.cancellation import LoopClock
from agenttape_core.scheduling.giving_up import Work, current_work

_LOOK = 1.0
"""Seconds between two looks of a thread at its loop, which may have ended."""
_MOST_LOOKS = 30
"""Looks after which a loop counts as one that waits for the thread that waits for it."""


def virtual_loop() -> Any:
    """Return the event loop whose time passes for the caller.

    Raises:
        ConfigurationError: If there is none.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return _work().room.loop


def sleep_in_virtual_time(seconds: float) -> None:
    """Let time pass for code that is no coroutine.

    Args:
        seconds: The time.

    Raises:
        ConfigurationError: If the caller neither runs in a loop nor works for one, or the loop waits for the caller.
    """
    try:
        loop: Any = asyncio.get_running_loop()
    except RuntimeError:
        _sleep_in_thread(_work(), seconds)
    else:
        LoopClock.of(loop).pass_to(loop.time() + seconds)


def _work() -> Work:
    """Return the work that an event loop waits for, and that the thread of the caller does."""
    work = current_work()
    found = next((one for one in work.outwards() if one.room is not None), None) if work is not None else None
    if found is None or found is not work:
        raise ConfigurationError(
            "pace='virtual': a call was served in a thread that no event loop waits for, and its time cannot be held\n"
            "  run the program in an event loop (ainvoke, astream), or leave pace out"
        )
    return found


def _sleep_in_thread(work: Work, seconds: float) -> None:
    room, woken = work.room, threading.Event()

    def begins(comes: Callable[[], None]) -> None:
        def wake() -> None:
            comes()
            woken.set()

        room.post(functools.partial(room.sleeps, seconds, wake))

    with room.owner.strands.sleeping(begins):
        for _ in range(_MOST_LOOKS):
            if woken.wait(_LOOK) or not room.loop.is_running():
                return
    raise ConfigurationError(
        "pace='virtual': an event loop waits for a thread that waits for its time to pass, so that cannot be held\n"
        "  let the loop go on while the thread works (await asyncio.to_thread), or leave pace out"
    )
