"""The age of a cassette, and its limit."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from agenttape_core.errors import ConfigurationError

_AGE = re.compile(r"(\d{1,6})([hdw]?)")
_UNITS = {"h": timedelta(hours=1), "": timedelta(days=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parse_age(text: str, option: str = "--cassette-max-age") -> timedelta:
    """Return an age such as `90`, `90d`, `12h` or `6w`. Raises `ConfigurationError`, with `option`, for others."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError(f"{option}={text}: expected a number of days, or such as 90d, 12h, 6w")
    return int(match[1]) * _UNITS[match[2]]


def recorded_at(created: str) -> datetime | None:
    """Return when a cassette was recorded, according to its header: UTC, ISO 8601. Empty if it has no time."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def age_of(created: str, now: datetime | None = None) -> timedelta | None:
    """Return the time since then as words."""
    moment = recorded_at(created)
    return (now or datetime.now(UTC)) - moment if moment is not None else None
