"""The functions of `time` that tell the moment, and the one that lets it pass. Those that measure spans stay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agenttape_core.freeze.backoff import is_backing_off, ordered_sleeps
from agenttape_core.freeze.callers import calling_module
from agenttape_core.freeze.frozen_function import FrozenFunction, Replacement
from agenttape_core.freeze.timed_waits import really_sleep

if TYPE_CHECKING:
    from agenttape_core.freeze.frozen import Frozen

Real = Callable[..., Any]

_PASSING = frozenset({__name__, "agenttape_core.freeze.frozen_function", "agenttape_core.freeze.references"})

_localtime = time.localtime


def _time(frozen: Frozen, _real: Real) -> Callable[[], float]:
    return lambda: frozen.clock


def _time_ns(frozen: Frozen, _real: Real) -> Callable[[], int]:
    return lambda: frozen.clock_ns


def _of_seconds(frozen: Frozen, real: Real) -> Callable[[float | None], Any]:
    """`gmtime`, `localtime` and `ctime`: the moment is the default of the only argument."""

    def of_seconds(seconds: float | None = None, /) -> Any:
        if seconds is not None:
            return real(seconds)
        return real(frozen.clock if real.__name__ == "gmtime" else frozen.local_clock)

    return of_seconds


def _asctime(frozen: Frozen, real: Real) -> Callable[..., str]:
    return lambda *moment: real(*moment or (_localtime(frozen.local_clock),))


def _strftime(frozen: Frozen, real: Real) -> Callable[..., str]:
    return lambda form, *moment: real(form, *moment or (_localtime(frozen.local_clock),))


def _of_clock(frozen: Frozen, real: Real) -> Callable[[int], Any]:
    """`clock_gettime` and `clock_gettime_ns`, which can also read the wall clock."""

    def of_clock(clock: int, /) -> Any:
        if clock != time.CLOCK_REALTIME:
            return real(clock)
        return frozen.clock_ns if real.__name__.endswith("_ns") else frozen.clock

    return of_clock


def _no_time(_: float) -> None:
    pass


def _sleep(frozen: Frozen, real: Real) -> Callable[..., None]:
    def sleep(seconds: float = 0, /, **_: object) -> None:
        begun = frozen.begin_wait()
        is_skipped = frozen.skips_backoff and is_backing_off()
        # One that is skipped takes no time, but others may go on meanwhile, as they did in the recording.
        is_poll = calling_module(_PASSING) == "subprocess"  # as often as the machine is slow: see `waiting`
        with ordered_sleeps().holding_up(0 if is_poll else seconds):
            really_sleep(_no_time if is_skipped else real, 0 if is_skipped else seconds)
        if not is_poll:
            frozen.end_wait(begun, seconds)

    return sleep


_REPLACEMENTS: dict[str, Replacement] = {
    "time": _time,
    "time_ns": _time_ns,
    "gmtime": _of_seconds,
    "localtime": _of_seconds,
    "ctime": _of_seconds,
    "asctime": _asctime,
    "strftime": _strftime,
    "clock_gettime": _of_clock,
    "clock_gettime_ns": _of_clock,
}

STAND_INS = (
    *(FrozenFunction(getattr(time, name), "clock", by) for name, by in _REPLACEMENTS.items() if hasattr(time, name)),
    FrozenFunction(time.sleep, None, _sleep, really_sleep),
)
"""One stand-in for each function that this system has."""
