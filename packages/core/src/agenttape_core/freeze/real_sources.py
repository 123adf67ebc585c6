"""The sources that stay real in a session: clocks that measure spans, and noise that no one must foresee.

A standing clock would let event loops and locks wait for ever, and the seed of a session can be read in its cassette.
So code of the program that reads one of these gets something else in each replay, and each replay names it. Libraries
read them all the time, mostly for timeouts and logs; their use isn't checked.
"""

from __future__ import annotations

import functools
import os
import random
import secrets
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from agenttape_core.freeze.callers import MACHINERY
from agenttape_core.freeze.frozen_function import current, tell_real_draw
from agenttape_core.guard.caller import is_library, is_own

_PASSING = frozenset({random.__file__, secrets.__file__})
_MEASURING = (
    *("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
)

_of_program: dict[str, bool] = {}
"""By file: true if its code is the program's."""


class RealSource:
    """Wraps a function that stays real, and reports its callers. `kind` is `noise` or `spans`."""

    __wrapped__: Callable[..., Any]
    is_stand_in = True

    def __init__(self, real: Callable[..., Any], kind: str) -> None:
        functools.update_wrapper(self, real)
        self.unexchanged = self._real = real
        self._kind = kind

    def __call__(self, *args: Any) -> Any:
        """Call the real function."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
        while frame is not None and frame.f_code.co_filename in _PASSING:
            frame = frame.f_back
        if frame is not None and _of_program.get(frame.f_code.co_filename, True) and _is_of_program(frame):
            frozen = current()
            if frozen is None or not frozen.is_importing():
                tell_real_draw(self._kind)
        return self._real(*args)

    def __eq__(self, other: object) -> bool:
        return self._real == (other._real if isinstance(other, RealSource) else other)

    def __hash__(self) -> int:
        return hash(self._real)

    def __repr__(self) -> str:
        return repr(self._real)

    def __reduce__(self) -> str:
        return str(self._real.__name__)


def _is_of_program(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    known = _of_program.get(file)
    if known is None:
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        known = _of_program[file] = not (is_library(file) or is_own(frame) or top in MACHINERY or file.startswith("<"))
    return known


STAND_INS = (
    RealSource(os.urandom, "noise"),
    *(RealSource(getattr(time, name), "spans") for name in _MEASURING if hasattr(time, name)),
)
"""One stand-in for each function that this system has."""
