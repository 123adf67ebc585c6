"""Timings as text, in ms.

One line per interaction: its number, its start and its duration with a `+` between them, and the offsets of its chunks.
Where its start is not known, the duration stands alone. For a tool, the moment at which its code began and the nonce of
its ids stand after the number, as `@1763815000.123456~9f3a2c1b44d0`.

One line per step: its number, its start and its duration. All of them change with each recording, so if there are more
than two they share a few lines, separated by `, `.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.format.malformed import Malformed
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema import StepTiming, Timing

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MS = 1e15  # a duration in milliseconds has up to 15 digits before the point
_FEW, _PACKED = 2, 8
"""The number of timings up to which each gets its own line, and the number per line if there are more."""
_BETWEEN = ", "
_MS = r"-?[0-9]{1,15}\.[0-9]"
_MOMENT = r"@-?[0-9]{1,15}\.[0-9]{6}~[0-9a-f]{1,64}"
_LINE = Lazy(rf"[0-9]{{1,15}} (?:{_MOMENT} )?(?:{_MS}\+)?{_MS}(?: {_MS})*")
_STEP_LINE = Lazy(rf"[0-9]{{1,15}}(?: {_MS}){{2}}")


def dump_timings(timings: Mapping[int, Timing]) -> str:
    """The text, with a precision of 0.1 ms; empty without timings."""
    entries = [
        f"{number} {_moment(timing)}{_start(timing)}"
        + " ".join(map(_milliseconds, (timing.duration_ms, *timing.offsets_ms)))
        for number, timing in sorted(timings.items())
    ]
    return _lines(entries)


def _lines(entries: list[str]) -> str:
    width = _PACKED if len(entries) > _FEW else 1
    starts = range(0, len(entries), width)
    return "".join(f"{_BETWEEN.join(entries[start : start + width])}\n" for start in starts)


def load_timings(text: str) -> dict[int, Timing]:
    """Parse the text. Raises `Malformed` if a line isn't a number and times, the first perhaps with a duration."""
    timings: dict[int, Timing] = {}
    for position, line in _entries(text):
        if not _LINE.fullmatch(line):
            raise Malformed("expected a timing such as `3 15.2+120.5 40.0 80.1`", position)
        number, *parts = line.split(" ")
        moment, _, nonce = parts.pop(0)[1:].partition("~") if parts[0].startswith("@") else ("", "", "")
        times, *offsets = parts
        start, _, duration = times.rpartition("+")
        given: dict[str, Any] = {"duration_ms": float(duration)}  # no more, as each field that is given takes memory
        if start:
            given["start_ms"] = float(start)
        if offsets:
            given["offsets_ms"] = [float(ms) for ms in offsets]
        if moment:
            given |= {"moment": float(moment), "nonce": nonce}
        timings[int(number)] = Timing(**given)
    if text and not text.endswith("\n"):
        raise Malformed("the last timing has no end of line", text.count("\n"))
    return timings


def dump_step_timings(timings: Mapping[int, StepTiming]) -> str:
    """Likewise for steps: the number of the step, its start and its duration."""
    entries = [
        f"{number} {_milliseconds(timing.start_ms)} {_milliseconds(timing.duration_ms)}"
        for number, timing in sorted(timings.items())
    ]
    return _lines(entries)


def load_step_timings(text: str) -> dict[int, StepTiming]:
    """Parse the text. Raises `Malformed` if a line is not a number and two times."""
    timings: dict[int, StepTiming] = {}
    for position, line in _entries(text):
        if not _STEP_LINE.fullmatch(line):
            raise Malformed("expected the timing of a step such as `3 120.5 40.0`", position)
        number, start, duration = line.split(" ")
        timings[int(number)] = StepTiming(start_ms=float(start), duration_ms=float(duration))
    if text and not text.endswith("\n"):
        raise Malformed("the last timing of a step has no end of line", text.count("\n"))
    return timings


def _entries(text: str) -> list[tuple[int, str]]:
    """Return each timing with the number of its line."""
    lines = enumerate(text.split("\n")[:-1])
    return [(position, entry) for position, line in lines for entry in line.split(_BETWEEN)]


def _start(timing: Timing) -> str:
    return f"{_milliseconds(timing.start_ms)}+" if timing.start_ms is not None else ""


def _moment(timing: Timing) -> str:
    return f"@{timing.moment:.6f}~{timing.nonce} " if timing.moment is not None else ""


def _milliseconds(ms: float) -> str:
    """Format one time."""
    if not math.isfinite(ms) or abs(ms) >= MAX_MS:
        raise UnrecordableValueError("timing", type(ms), f"{ms} isn't a duration in milliseconds")
    return f"{ms:.1f}"
