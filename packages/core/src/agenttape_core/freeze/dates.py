"""The methods of `datetime` and `date` that tell the moment, exchanged inside the real classes: see `guard.immutable`.

What was bound before a session, such as `default_factory=datetime.now`, is answered for as well: see `references`.
"""

from __future__ import annotations

import datetime as dt
import sys
import warnings
from typing import Any

from agenttape_core.freeze.frozen_function import active
from agenttape_core.freeze.modules import keeps_real
from agenttape_core.freeze.references import MethodReference
from agenttape_core.guard.immutable import Exchange

_FROM_TIMESTAMP = {cls: vars(cls)["fromtimestamp"] for cls in (dt.datetime, dt.date)}
_WARNS_OF_UTCNOW = sys.version_info >= (3, 12)


def _at(cls: type, moment: float, *tz: dt.tzinfo | None) -> Any:
    """Make a value of a class as the standard library does, whatever a derived class has in the method's place."""
    base = dt.datetime if issubclass(cls, dt.datetime) else dt.date
    return _FROM_TIMESTAMP[base].__get__(None, cls)(moment, *tz)


def _now(cls: type, tz: dt.tzinfo | None = None) -> Any:
    """Return the current moment; see `datetime.datetime.now`."""
    frozen = active("clock")
    return (
        _real("now", cls)(tz)
        if frozen is None
        else _at(cls, frozen.clock if tz is not None else frozen.local_clock, tz)
    )


def _utcnow(cls: type, *, _depth: int = 2) -> Any:
    """Return the current moment in UTC, without a zone; see `datetime.datetime.utcnow`."""
    if _WARNS_OF_UTCNOW:  # here, so that the warning names the caller
        warnings.warn(
            "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. Use "
            "timezone-aware objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC).",
            DeprecationWarning,
            stacklevel=_depth,
        )
    return _now(cls, dt.UTC).replace(tzinfo=None)


def _today(cls: type) -> Any:
    """Return the current day, or the moment for a class of moments; see `datetime.date.today`."""
    frozen = active("clock")
    return _real("today", cls)() if frozen is None else _at(cls, frozen.local_clock)


def _class_method(function: Any) -> classmethod[Any, Any, Any]:
    name = function.__name__.removeprefix("_")
    owner = dt.date if name == "today" else dt.datetime
    function.__name__, function.__qualname__, function.__module__ = name, f"{owner.__name__}.{name}", owner.__module__
    return classmethod(function)


_METHODS: list[tuple[type, str, Any, Any]] = [
    (dt.datetime, "now", _now, _now),
    # Another frame is between the warning and the caller.
    (dt.datetime, "utcnow", _utcnow, lambda cls: _utcnow(cls, _depth=3)),
    (dt.date, "today", _today, _today),
]
_REAL = {name: vars(owner)[name] for owner, name, _, _ in _METHODS}
_REFERENCES = {name: MethodReference(getattr(owner, name), bound, keeps_real) for owner, name, _, bound in _METHODS}
REFERENCES = [*_REFERENCES.values()]  # the methods as they were bound before a session
METHODS = Exchange([(owner, name, _class_method(function)) for owner, name, function, _ in _METHODS])


def _real(name: str, cls: type) -> Any:
    reference = _REFERENCES[name]
    return reference.real(cls) if reference.is_understood else _REAL[name].__get__(None, cls)
