"""Loops that only read a standing clock, and so wait for it: `while time.time() < deadline: pass`.

They read it at one line, over and over, while the rest of the session is idle. From some number of such readings on the
clock passes there in real time, so the loop waits as long as it would without a session, and ends. It passes in ticks,
of which the loop sees each, so that the moment at which it ends is the same in every run.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable

PATIENCE = 100_000
"""Readings of one line, without any other event of the session between them, that are taken for a loop that waits. A
loop that only reads the clock gets there in a tenth of a second; a program that timestamps its data hardly ever
does."""
TICK = 0.01
"""Seconds by which the clock passes each time."""

_REAL_MONOTONIC = time.monotonic


class Spinning:
    """The readings of one session's clock since something else happened in it. Not exact where threads compete.

    `is_under_way` returns True while a call of the session is, which takes no frozen time, however long it is.
    """

    def __init__(self, is_under_way: Callable[[], bool]) -> None:
        self._is_under_way = is_under_way
        self._readings: dict[tuple[int, int], int] = {}
        self._due: float | None = None
        self._calls = 0

    def reset(self) -> None:
        """Begin again: something else happened."""
        self._readings.clear()
        self._due = None

    def read(self, passed: float, frame: types.FrameType | None, calls: int) -> float:
        """Count a reading by the line that reads.

        `calls` counts the calls of the session that have begun: each is something else that happened. Returns the
        seconds by which the clock has passed now.
        """
        if calls != self._calls:
            self._calls = calls
            self.reset()
        place = (id(frame.f_code), frame.f_lasti) if frame is not None else (0, 0)
        readings = self._readings.get(place, 0)
        if readings < PATIENCE:
            self._readings[place] = readings + 1
            return passed
        if self._is_under_way():
            self._due = None
            return passed
        now = _REAL_MONOTONIC()
        if self._due is None:
            self._due = now + TICK
        if now < self._due:
            return passed
        self._due += TICK
        return round(passed + TICK, 6)
