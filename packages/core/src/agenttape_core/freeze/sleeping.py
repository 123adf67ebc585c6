"""`asyncio.sleep`, replaced inside its function object, so that every reference to it is covered: see `ids`."""

from __future__ import annotations

import asyncio
import types
from typing import Any, TypeVar, cast

from agenttape_core.freeze.backoff import is_backing_off, ordered_sleeps
from agenttape_core.freeze.frozen_function import current

T = TypeVar("T")


async def _sleep(delay: float, result: Any = None) -> Any:
    from agenttape_core.freeze.sleeping import sleep_and_pass  # this code runs with the globals of `asyncio.tasks`

    return await sleep_and_pass(delay, result)


_SLEEP = cast("types.FunctionType", asyncio.sleep)
_CODE = _SLEEP.__code__
_REAL = types.FunctionType(_CODE, _SLEEP.__globals__, "sleep", _SLEEP.__defaults__)


async def sleep_and_pass(delay: float, result: T) -> T:
    """Sleep for real, then let the frozen clock of the caller's session pass by as much."""
    frozen = current()
    is_skipped = frozen is not None and frozen.skips_backoff and delay > 0 and is_backing_off()
    begun = frozen.begin_wait() if frozen is not None and delay > 0 else None
    skipped = ordered_sleeps().passing(delay) if is_skipped else None
    if skipped is not None:
        await skipped
    else:
        # Other tasks have their turn even if it's skipped.
        await _REAL(0 if is_skipped and not ordered_sleeps().is_ordered() else delay)
    if frozen is not None and begun is not None:
        frozen.end_wait(begun, delay)
    return result


CODES = [(_SLEEP, _CODE, _sleep.__code__)]
"""The function that moves the caller's frozen clock in a session: the function, its own code, and its code in a
session."""
