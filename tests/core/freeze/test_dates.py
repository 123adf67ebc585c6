"""The real classes tell the frozen moment; they stay what they are for everything else."""

# Naive moments are part of what is tested.
# ruff: noqa: DTZ001, DTZ002, DTZ005, DTZ006, DTZ007, DTZ011, DTZ901

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import pickle
from datetime import UTC, date, timedelta
from datetime import datetime as moment
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, create_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from agenttape_core.freeze import Frozen

    OpenSession = Callable[..., AbstractContextManager[Frozen]]

REAL = {"datetime": dt.datetime, "date": dt.date}  # a dict, as a session exchanges what is a global
BEFORE = moment(2020, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_values_are_real(session: OpenSession) -> None:
    """However a value is made, its class is the real one."""
    with session():
        values = [
            moment.now(),
            moment.now(UTC),
            moment.today(),
            moment(2020, 1, 2),
            moment.fromtimestamp(0, UTC),
            moment.fromisoformat("2020-01-02"),
            moment.strptime("2020", "%Y"),
            moment.combine(date.today(), dt.time()),
            moment.min,
            moment.max,
            moment.now() + timedelta(1),
            moment.now().replace(year=2000),
            moment.__new__(moment, 2020, 1, 2),
        ]
        days = [date.today(), date(2020, 1, 2), date.fromisoformat("2020-01-02"), moment.now().date(), date.max]
    assert {type(value) for value in values} == {REAL["datetime"]}
    assert {type(value) for value in days} == {REAL["date"]}


def test_isinstance_holds_inside(session: OpenSession) -> None:
    """Values of before, inside and after are instances, of both names."""
    with session():
        inside = moment.now()
        assert isinstance(inside, moment)
        assert isinstance(inside, REAL["datetime"])
        assert isinstance(BEFORE, dt.datetime)
        assert isinstance(inside, date)
        assert not isinstance(date.today(), moment)
        assert not isinstance("x", moment)
        match inside:
            case moment(year=year):
                assert year == 2023
    assert isinstance(inside, moment)


def test_the_methods_are_exchanged_and_nothing_else(session: OpenSession) -> None:
    """Every attribute of the two classes but those that tell the moment is untouched inside, and all are after."""
    before = {cls: dict(vars(cls)) for cls in (moment, date)}
    with session():
        changed = {name for cls in (moment, date) for name in vars(cls) if vars(cls)[name] is not before[cls].get(name)}
        assert changed == {"now", "utcnow", "today"}
        assert moment.now.__qualname__ == "datetime.now"
        assert repr(moment) == "<class 'datetime.datetime'>"
    assert {cls: dict(vars(cls)) for cls in (moment, date)} == before
    assert type(moment.now) is type(len)


def test_derived_classes_tell_the_frozen_moment(session: OpenSession) -> None:
    """A class that was derived before the session makes its own values, also where it overrides how they are made."""

    class Derived(moment):
        pass

    class Stubborn(moment):
        @classmethod
        def fromtimestamp(cls, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError

    class Day(date):
        pass

    with session():
        for cls in (Derived, Stubborn):
            assert cls.now(UTC) == moment.now(UTC)
            assert cls.today() == moment.today()
            assert type(cls.now()) is type(cls.today()) is cls
        assert type(Day.today()) is Day
        assert Day.today() == date.today()
    assert Derived.now() > Derived.fromtimestamp(1_700_000_001)


@pytest.mark.parametrize("wrong", ["UTC", 5, dt.timedelta(1)])
def test_a_wrong_zone_is_refused_as_ever(session: OpenSession, wrong: Any) -> None:
    """What is no zone gets the error that it gets outside."""
    with pytest.raises(TypeError, match="tzinfo argument must be None or of a tzinfo subclass"):
        moment.now(wrong)
    with session(), pytest.raises(TypeError, match="tzinfo argument must be None or of a tzinfo subclass"):
        moment.now(wrong)


def test_dispatch_on_the_type_works(session: OpenSession) -> None:
    """A function registered inside is found for a value."""
    with session():

        @singledispatch
        def name(value: object) -> str:
            return "other"

        name.register(moment, lambda value: "moment")
        name.register(date, lambda value: "day")
        assert (name(moment.now()), name(date.today()), name(1)) == ("moment", "day", "other")


def test_a_class_can_be_derived_inside(session: OpenSession) -> None:
    """A class of a user is an ordinary subclass, inside and after."""
    with session():

        class Stamp(moment):
            hooks: list[str] = []  # noqa: RUF012 - shared on purpose

            def __init_subclass__(cls, tag: str = "") -> None:
                cls.hooks.append(tag)

            def year_later(self) -> Stamp:
                return super().replace(year=self.year + 1)

        class Tagged(Stamp, tag="t"):
            pass

        assert Stamp.__mro__[1] is REAL["datetime"]
        assert type(Stamp(2020, 1, 1).year_later()) is Stamp
        assert Stamp.hooks == ["t"]
    assert isinstance(Tagged(2020, 1, 1), moment)
    assert Stamp.fromisoformat("2020-01-02").day == 2


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_the_same(session: OpenSession, protocol: int) -> None:
    """Values are pickled inside as outside, and either is read on the other side."""
    values = [BEFORE, BEFORE.date(), BEFORE.time(), timedelta(1), BEFORE.replace(tzinfo=None)]
    outside = pickle.dumps(values, protocol)
    with session():
        inside = pickle.dumps(values, protocol)
        loaded = pickle.loads(outside)
        classes = pickle.loads(pickle.dumps([moment, date]))
    assert inside == outside
    assert pickle.loads(inside) == loaded == values
    assert type(loaded[0]) is REAL["datetime"]
    assert classes == [REAL["datetime"], REAL["date"]]


def test_copies_are_equal(session: OpenSession) -> None:
    """Shallow and deep copies keep value and class."""
    with session():
        now = moment.now(UTC)
        assert copy.copy(now) == copy.deepcopy([now])[0] == now
        assert type(copy.deepcopy(now)) is REAL["datetime"]


def test_models_can_be_defined_and_used_inside(session: OpenSession) -> None:
    """The classes are a field's type, and a default's maker."""
    with session():

        class Event(BaseModel):
            at: moment
            day: date | None = None
            made: moment = Field(default_factory=moment.now)

        event = Event.model_validate({"at": "2020-01-02T03:04:05Z", "day": "2020-01-02"})
        assert (event.at, event.day, event.made) == (BEFORE, date(2020, 1, 2), moment.now())
        assert Event.model_validate_json(event.model_dump_json()) == event
        assert Event.model_json_schema()["properties"]["at"]["format"] == "date-time"
    assert Event(at=BEFORE).made > event.made


def test_models_of_before_work_inside(session: OpenSession) -> None:
    """Pydantic still knows the real classes, for models of before and for new ones that name them."""

    class Old(BaseModel):
        at: moment
        day: date

    with session():
        assert Old(at=moment.now(UTC), day=date.today()).at == moment.now(UTC)
        assert TypeAdapter(REAL["datetime"]).validate_python("2020-01-02T03:04:05Z") == BEFORE
        fields: dict[str, Any] = {"at": (REAL["datetime"], ...), "day": (REAL["date"], ...)}
        late = create_model("Late", **fields)
        assert late.model_validate({"at": BEFORE, "day": "2020-01-02"}).model_dump()["at"] == BEFORE


def test_dataclasses_work_inside(session: OpenSession) -> None:
    """A default factory taken inside is frozen inside and runs after."""
    with session():

        @dataclasses.dataclass
        class Event:
            at: moment = dataclasses.field(default_factory=moment.now)

        assert Event().at == moment.now()
    assert Event().at > moment.fromtimestamp(1_700_000_001)
