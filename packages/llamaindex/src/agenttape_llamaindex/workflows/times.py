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
    if isinstance(tick, dict):
        return {key: _moved(item, by) if key in _TIMES else _below(key, item, by) for key, item in tick.items()}
    return tick


def _below(key: str, item: Any, by: float) -> Any:
    return [shifted(result, by) for result in item] if key == "result" and isinstance(item, list) else item


def _moved(time: Any, by: float) -> Any:
    return round(time + by, 6) if isinstance(time, int | float) else time
