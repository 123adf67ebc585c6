"""Facades of `datetime` and `date`: classes to ask for the moment, never classes of a value.

All values stay instances of the real classes; only the names are exchanged. A facade derives from the real class, so
its class methods, `min` and `max` are there; its constructor makes real instances; its metaclass makes it equal to
the real class in `isinstance`, `issubclass`, `==` and as a dict key; a class derived from it derives from the real one.
"""

from __future__ import annotations

import copyreg
import datetime as dt
import sys
import types
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic_core import core_schema

from agenttape_core.freeze.frozen_function import active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_datetime = dt.datetime
_date = dt.date
_utc = dt.UTC


class Facade(type):
    """The metaclass of the two facades, whose base is the real class."""

    __base__: type

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        """Make the class that a user derives from a facade: one that derives from the real class."""
        plain = tuple(base.__base__ if isinstance(base, Facade) else base for base in bases)
        return types.new_class(name, plain, kwargs, lambda body: body.update(namespace))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__base__)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__base__)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.__base__

    def __hash__(cls) -> int:
        return hash(cls.__base__)


def _now(_cls: type, tz: dt.tzinfo | None = None) -> dt.datetime:
    frozen = active("clock")
    return _datetime.now(tz) if frozen is None else _datetime.fromtimestamp(frozen.clock, tz)


def _utcnow(_cls: type) -> dt.datetime:
    frozen = active("clock")
    if frozen is None:
        return _datetime.utcnow()
    return _datetime.fromtimestamp(frozen.clock, _utc).replace(tzinfo=None)


def _datetime_today(_cls: type) -> dt.datetime:
    frozen = active("clock")
    return _datetime.today() if frozen is None else _datetime.fromtimestamp(frozen.clock)


def _date_today(_cls: type) -> dt.date:
    frozen = active("clock")
    return _date.today() if frozen is None else _date.fromtimestamp(frozen.clock)


def _facade(real: type, schema: Callable[[], core_schema.CoreSchema], **moments: Callable[..., Any]) -> Facade:
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real.__new__(real if type(cls) is Facade else cls, *args, **kwargs)

    def pydantic_schema(_cls: type, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        return schema()

    namespace: dict[str, Any] = {name: classmethod(function) for name, function in moments.items()}
    namespace |= {
        "__slots__": (),
        "__new__": new,
        "__module__": real.__module__,
        "__qualname__": real.__qualname__,
        "__doc__": real.__doc__,
        "__get_pydantic_core_schema__": classmethod(pydantic_schema),
    }
    return type.__new__(Facade, real.__name__, (real,), namespace)


datetime_facade = _facade(_datetime, core_schema.datetime_schema, now=_now, utcnow=_utcnow, today=_datetime_today)
date_facade = _facade(_date, core_schema.date_schema, today=_date_today)

FACADES: tuple[tuple[type, Facade], ...] = ((_datetime, datetime_facade), (_date, date_facade))
"""The real classes and what stands in for them."""

PRISTINE = types.ModuleType("datetime", dt.__doc__)
"""The module as it is without facades, for code that compares annotations with its classes by identity."""
PRISTINE.__dict__.update(vars(dt))


@contextmanager
def pristine() -> Iterator[None]:
    """Let who imports `datetime` inside get it without facades: a class with a metaclass cannot derive from one."""
    before = sys.modules["datetime"]
    sys.modules["datetime"] = PRISTINE
    try:
        yield
    finally:
        sys.modules["datetime"] = before


_taught: dict[type, tuple[Any, Any]] = {}
"""By real class: what was said before of how its values are pickled, and what is said now."""


def teach_pickle() -> None:
    """Let values be pickled while a facade has the name: pickle looks the class up by name and wants the same one."""
    for real, facade in FACADES:
        before, now = copyreg.dispatch_table.get(real), _reducer(facade)
        _taught[real] = before, now
        copyreg.dispatch_table[real] = now


def unteach_pickle() -> None:
    """Leave pickle to its own ways again, or to those of a tool that travels in time around the sessions."""
    for real, (before, now) in _taught.items():
        if copyreg.dispatch_table.get(real) is not now:
            continue  # somebody else's by now
        if before is None:
            del copyreg.dispatch_table[real]
        else:
            copyreg.dispatch_table[real] = before
    _taught.clear()


def _reducer(facade: Facade) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: (facade, *value.__reduce_ex__(4)[1:])
