"""Timeouts that are over before they begin to count, on a machine that is busy, are timers all the same.

`asyncio.timeout` sets no timer where its moment has passed when its block is entered: it cancels the block in the next
round of the loop. A program that is held up for as long as the timeout takes would go another way then, and no order
says so. A timer comes when the program has nothing else to do, and in a replay when it came in the recording.
"""

from __future__ import annotations

import asyncio
from asyncio import timeouts
from typing import Any

_Timeout: Any = timeouts.Timeout
_real_init = _Timeout.__init__
_real_reschedule = _Timeout.reschedule
_IS_TO_COME = "_agenttape_is_to_come"


def _init(self: Any, when: float | None) -> None:
    _real_init(self, when)
    loop = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
    if when is not None and loop is not None and when > loop.time():
        vars(self)[_IS_TO_COME] = True


def _reschedule(self: Any, when: float | None) -> None:
    is_to_come = vars(self).pop(_IS_TO_COME, False)
    loop = asyncio._get_running_loop()  # noqa: SLF001 - as above
    if not is_to_come or when is not self._when or loop is None or when is None or when > loop.time():
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
