"""The end of an event loop, at one point of the order of its callbacks.

A loop that is told to stop ends its round. What that still holds depends on the rounds, and a replay has others: calls
that are served take none. So a loop in which a call is awaited stops when it has called all that was ready then.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any

from agenttape_core.scheduling.handles import ACTIVE, Looking

_Loop: Any = asyncio.BaseEventLoop
_real_stop = _Loop.stop


class _Stopping(Looking):
    __slots__ = ("_loop",)

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def stop(self) -> None:
        """Stop the loop, and let what has become ready meanwhile wait until it runs again."""
        ready = self._loop._ready  # noqa: SLF001 - no public name tells it
        over = asyncio.Handle(bool, (), self._loop, Context())
        over.cancel()
        ready.extendleft([over] * len(ready))  # the rest of the round; a loop passes over what is cancelled
        _real_stop(self._loop)


def _stop(self: Any) -> None:
    if self in ACTIVE and asyncio._get_running_loop() is self:  # noqa: SLF001 - the public one raises, which is slow
        loop: Any = self
        loop.call_soon(_Stopping(loop).stop, context=Context())
    else:
        _real_stop(self)


SEAMS: tuple[tuple[type, str, Any, Any], ...] = ((_Loop, "stop", _real_stop, _stop),)
"""The method, with what takes its place while sessions are open."""
