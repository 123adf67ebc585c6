"""The times in ticks: seconds since the run began, so that two recordings of one run do not differ in them."""

from __future__ import annotations

from typing import Any

_TIMES = frozenset({"stamped_at", "failed_at", "first_attempt_at", "last_failed_at", "due"})


def shifted(tick: Any, by: float) -> Any:
    """Return a tick as plain data with its times moved.

    Args:
        tick: The tick, or a part of it.
        by: The shift in seconds.
    """
    if not isinstance(tick, dict):
        return tick
    moved = {**tick, **{key: _moved(tick[key], by) for key in tick.keys() & _TIMES}}
    if isinstance(tick.get("result"), list):
        moved["result"] = [shifted(result, by) for result in tick["result"]]
    return moved


def _moved(time: Any, by: float) -> Any:
    return round(time + by, 6) if isinstance(time, int | float) else time
