"""The code that runs when an object is deleted: nobody's, as the garbage collector may run it at any time."""

from __future__ import annotations

import sys
from types import FrameType

_NEAR = 6
"""Frames between the method that deletes an object and the seam that looks for it."""


def is_in_finalizer() -> bool:
    """Return whether an object is deleted by the caller of the caller: the collector does that in any code."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - gives the stack without building a list
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
