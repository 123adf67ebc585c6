"""Timings as text, one line per interaction: its number, its duration and the offsets of its chunks in ms."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.schema import Timing
from agenttape_core.storage.malformed import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALL = TypeAdapter(dict[int, Timing])
_LINE = re.compile(r"[0-9]{1,15}(?: -?[0-9]{1,15}\.[0-9])+")


def dump_timings(timings: Mapping[int, Timing]) -> str:
    """The text, with a precision of 0.1 ms; empty when there are no timings."""
    return "".join(
        f"{number} {' '.join(_number(ms) for ms in (timing.duration_ms, *timing.offsets_ms))}\n"
        for number, timing in sorted(timings.items())
    )


def load_timings(text: str) -> dict[int, Timing]:
    """Parse the text.

    Raises:
        Malformed: A line is not a number and one or more durations.
    """
    timings: dict[int, dict[str, Any]] = {}
    for position, line in enumerate(text.split("\n")[:-1] if text else ()):
        if not _LINE.fullmatch(line):
            raise Malformed("expected a timing such as `3 120.5 40.0 80.1`", position)
        number, duration, *offsets = line.split(" ")
        timings[int(number)] = {"duration_ms": float(duration), "offsets_ms": [float(ms) for ms in offsets]}
    if text and not text.endswith("\n"):
        raise Malformed("the last timing has no end of line", text.count("\n"))
    return _ALL.validate_python(timings)


def _number(ms: float) -> str:
    if not math.isfinite(ms) or abs(ms) >= 1e15:  # noqa: PLR2004 - 15 digits, as in the pattern above
        raise UnrecordableValueError("timing", type(ms), f"{ms} is no duration in milliseconds")
    return f"{ms:.1f}"
