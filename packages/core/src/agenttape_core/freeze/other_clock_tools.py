"""Other tools that set the clock, in tests that travel in time. They are neither needed nor imported."""

from __future__ import annotations

import sys
import time

_REAL_TIME = time.time


def travelled_time() -> float | None:
    """Return the time that another tool gives in seconds since the epoch, or `None` if no such tool is active.

    freezegun and similar tools put their own function into `time.time`; time-machine patches the function behind the
    name.
    """
    current = time.time
    if current is not _REAL_TIME and not hasattr(current, "is_stand_in"):
        return current()
    escape_hatch = getattr(sys.modules.get("time_machine"), "escape_hatch", None)
    if escape_hatch is not None and escape_hatch.is_travelling():  # there is none while it is being imported
        return _REAL_TIME()
    return None


def refresh() -> None:
    """Let freezegun look again for the clocks that modules hold.

    It remembers which globals of a module it has to replace, and looks again only when their names change. What it
    found in the middle of a session, where stand-ins hold those names, would be wrong after it.
    """
    remembered = getattr(sys.modules.get("freezegun.api"), "_GLOBAL_MODULES_CACHE", None)
    if isinstance(remembered, dict):
        remembered.clear()
