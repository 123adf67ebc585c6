"""The methods of `datetime` and `date` that tell the moment, exchanged inside the real classes: see `immutable`."""

from __future__ import annotations

import datetime as dt
import sys
import warnings
from typing import Any

from agenttape_core.freeze.frozen_function import active
from agenttape_core.freeze.immutable import Exchange

_NOW = vars(dt.datetime)["now"]
_TODAY = vars(dt.date)["today"]
_FROM_TIMESTAMP = {cls: vars(cls)["fromtimestamp"] for cls in (dt.datetime, dt.date)}
_WARNS_OF_UTCNOW = sys.version_info >= (3, 12)


def _at(cls: type, moment: float, *tz: dt.tzinfo | None) -> Any:
    """Make a value of a class as the standard library does, whatever a derived class has in the method's place."""
    base = dt.datetime if issubclass(cls, dt.datetime) else dt.date
    return _FROM_TIMESTAMP[base].__get__(None, cls)(moment, *tz)


def _now(cls: type, tz: dt.tzinfo | None = None) -> Any:
    """Return the current moment; see `datetime.datetime.now`."""
    frozen = active("clock")
    return _NOW.__get__(None, cls)(tz) if frozen is None else _at(cls, frozen.clock, tz)


def _utcnow(cls: type) -> Any:
    """Return the current moment in UTC, without a zone; see `datetime.datetime.utcnow`."""
    if _WARNS_OF_UTCNOW:  # here, so that the warning names the caller
        warnings.warn(
            "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. Use "
            "timezone-aware objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC).",
            DeprecationWarning,
            stacklevel=2,
        )
    return _now(cls, dt.UTC).replace(tzinfo=None)


def _today(cls: type) -> Any:
    """Return the current day, or the moment for a class of moments; see `datetime.date.today`."""
    frozen = active("clock")
    return _TODAY.__get__(None, cls)() if frozen is None else _at(cls, frozen.clock)


def _class_method(function: Any) -> classmethod[Any, Any, Any]:
    name = function.__name__.removeprefix("_")
    owner = dt.date if name == "today" else dt.datetime
    function.__name__, function.__qualname__, function.__module__ = name, f"{owner.__name__}.{name}", owner.__module__
    return classmethod(function)


exchange = Exchange(
    [
        (dt.datetime, "now", _class_method(_now)),
        (dt.datetime, "utcnow", _class_method(_utcnow)),
        (dt.date, "today", _class_method(_today)),
    ]
)
swap_in, swap_out = exchange.swap_in, exchange.swap_out
