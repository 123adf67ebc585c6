"""A frozen session's clock stands still or ticks; everything that measures spans goes on."""

# Naive moments are part of what is tested.
# ruff: noqa: DTZ001, DTZ002, DTZ003, DTZ005, DTZ006, DTZ007, DTZ011, DTZ012, DTZ901

from __future__ import annotations

import asyncio
import datetime as dt
import time
from datetime import UTC, date, datetime, timedelta
from datetime import datetime as moment
from time import time as seconds
from typing import Any, ClassVar

import pytest

from .conftest import OpenSession

MOMENT = 1_700_000_000.25
# A dict, as a session exchanges what is a global.
REAL: dict[str, Any] = {"time": time.time, "datetime": dt.datetime, "date": dt.date}


def test_every_way_to_ask_gives_the_moment(session: OpenSession) -> None:
    """All functions agree, through the module and by name."""
    with session():
        assert time.time() == seconds() == MOMENT
        assert time.time_ns() == 1_700_000_000_250_000_000
        assert moment.now(UTC).timestamp() == moment.now().timestamp() == MOMENT
        assert dt.datetime.today() == moment.fromtimestamp(MOMENT)
        assert dt.date.today() == date.today() == date.fromtimestamp(MOMENT)
        assert time.gmtime() == time.gmtime(None) == time.gmtime(MOMENT)
        assert time.localtime() == time.localtime(MOMENT)
        assert time.ctime() == time.asctime() == time.ctime(MOMENT)
        assert time.strftime("%s") == str(int(MOMENT))


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_utcnow_is_naive_and_frozen(session: OpenSession) -> None:
    """`utcnow` keeps its kind of value."""
    with session():
        assert moment.utcnow() == moment(2023, 11, 14, 22, 13, 20, 250_000)
    assert abs(moment.utcnow().replace(tzinfo=UTC).timestamp() - time.time()) < 60


def test_a_given_time_is_not_frozen(session: OpenSession) -> None:
    """Conversions of an explicit time stay conversions."""
    with session():
        assert time.gmtime(0).tm_year == 1970
        assert time.strftime("%Y", time.gmtime(0)) == "1970"
        assert time.asctime(time.gmtime(0)) == "Thu Jan  1 00:00:00 1970"


def test_a_kind_that_is_not_frozen_is_real(session: OpenSession) -> None:
    """Freezing ids alone leaves the clock running."""
    with session(kinds=["uuid"]):
        assert time.time() > MOMENT
        assert moment.now() > moment.fromtimestamp(MOMENT)
        assert moment.today() > moment.fromtimestamp(MOMENT)
        assert date.today() > date.fromtimestamp(MOMENT)


def test_the_real_clock_comes_back(session: OpenSession) -> None:
    """After the session every name is the real thing again."""
    with session():
        assert time.time is not REAL["time"]
    assert time.time is seconds is REAL["time"]
    assert moment is dt.datetime is type(moment.now())


def test_a_stand_in_in_a_class_body_does_not_bind(session: OpenSession) -> None:
    """`time.time` as a class attribute is called without the instance, as the builtin is."""
    with session():

        class Clock:
            tell: ClassVar[Any] = time.time

        assert Clock().tell() == MOMENT
    assert Clock().tell() > MOMENT


def test_the_clock_passes_with_sleeps(session: OpenSession) -> None:
    """By as much as was asked for and a little more, as real sleeps do, and by the same in every run."""
    rounds = []
    for _ in range(2):
        with session():
            time.sleep(0.001)
            asyncio.run(asyncio.sleep(0.002))
            rounds.append(time.time())
    assert rounds[0] == rounds[1]
    assert MOMENT + 0.003 < rounds[0] < MOMENT + 0.004


def test_a_sleep_of_no_time_does_not_count(session: OpenSession) -> None:
    """How often code lets others have their turn is up to the schedule, so the clock stands still for it."""
    with session():
        before = time.time()
        time.sleep(0)
        asyncio.run(asyncio.sleep(0))
        assert time.time() == before


# -- the classes of moments -----------------------------------------------------------------------------------


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


def test_what_is_taken_inside_is_real_afterwards(session: OpenSession) -> None:
    """A default factory that a session's code takes is frozen inside and runs after."""
    with session():
        now, today = moment.now, date.today
        assert (now(), today()) == (moment.now(), date.today())
    assert now() > moment.fromtimestamp(1_700_000_001)
    assert today() >= now().date() - timedelta(1) > date(2023, 11, 15)


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


# -- a clock that ticks ---------------------------------------------------------------------------------------


def test_it_runs_as_fast_as_the_monotonic_clock(session: OpenSession) -> None:
    """Between two looks at the monotonic clock lies the time that the ticking clock shows, from the moment on."""
    before = time.monotonic()
    with session(kinds=["clock:ticking"]):
        inside = time.monotonic()
        seconds, moment = time.time(), datetime.now(UTC).timestamp()
        after = time.monotonic()
    assert MOMENT <= seconds <= moment
    # Half a microsecond: the resolution of floats at this magnitude, and of `datetime`.
    assert seconds - MOMENT >= -5e-7
    assert moment - MOMENT <= after - before + 5e-7
    assert inside >= before


def test_it_passes_without_a_sleep(session: OpenSession) -> None:
    """A loop that waits for a moment to come ends."""
    with session(kinds=["clock:ticking"]):
        deadline = time.time() + 0.002
        while time.time() < deadline:
            pass
        assert time.time_ns() >= round(deadline * 1e9) - 1_000


def test_a_sleep_counts_once(session: OpenSession) -> None:
    """What a sleep takes is on the monotonic clock already."""
    with session(kinds=["clock:ticking"]):
        began = time.monotonic()
        first = time.time()
        time.sleep(0.005)
        passed = time.time() - first
        assert passed <= time.monotonic() - began + 5e-7


def test_it_never_goes_back(session: OpenSession) -> None:
    """A later look is never an earlier moment, whatever the clock of the wall does meanwhile."""
    with session(kinds=["clock:ticking"]):
        looks = [time.time() for _ in range(100)]
    assert looks == sorted(looks)


def test_ids_do_not_tick(session: OpenSession) -> None:
    """Ids with a time are those of the session's beginning, so that they are equal in every run."""
    made = []
    for _ in range(2):
        with session(kinds=["clock:ticking", "uuid"]) as frozen:
            made.append([frozen.next_uuid("m", 7) for _ in range(3)])
    assert made[0] == made[1]
