"""Timeouts that are over before they begin to count, on a machine that is busy, are timers all the same.

`asyncio.timeout` sets no timer where its moment has passed when its block is entered: it cancels the block in the next
round of the loop. A program that is held up for as long as the timeout takes would go another way then, and no order
says so. A timer comes when the program has nothing else to do, and in a replay when it came in the recording.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import timeouts
from typing import Any

_Timeout: Any = timeouts.Timeout
_real_init = _Timeout.__init__
_real_reschedule = _Timeout.reschedule
_IS_TO_COME = "_agenttape_is_to_come"


def _init(self: Any, when: float | None) -> None:
    _real_init(self, when)
    loop = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
    if when is not None and loop is not None and _is_to_come(when, loop):
        vars(self)[_IS_TO_COME] = True


def _is_to_come(when: float, loop: Any) -> bool:
    """Return whether the moment of a timeout that is being made has still to come, for a machine that is not busy.

    `asyncio.timeout` gives the moment only. The machine may be held up for longer between it and the look at the clock.
    """
    frame = sys._getframe(2)  # noqa: SLF001 - the caller's, who knows the seconds
    if frame.f_code.co_name == "timeout" and frame.f_globals is vars(timeouts):
        return bool(frame.f_locals["delay"] > 0)
    return bool(when > loop.time())


def _reschedule(self: Any, when: float | None) -> None:
    is_to_come = vars(self).pop(_IS_TO_COME, False)
    loop = asyncio._get_running_loop()  # noqa: SLF001 - as above
    if not is_to_come or when is not self._when or loop is None or when is None:
        _real_reschedule(self, when)
        return
    _real_reschedule(self, None)
    self._when = when
    self._timeout_handler = loop.call_at(when, self._on_timeout)


SEAMS: tuple[tuple[type, str, Any, Any], ...] = (
    (_Timeout, "__init__", _real_init, _init),
    (_Timeout, "reschedule", _real_reschedule, _reschedule),
)
"""The methods, with what takes their place while sessions are open."""
