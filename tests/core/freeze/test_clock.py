"""A frozen session's clock stands still; everything that measures spans goes on."""

# Naive moments are part of what is tested.
# ruff: noqa: DTZ001, DTZ002, DTZ003, DTZ005, DTZ006, DTZ011, DTZ012

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from datetime import UTC, date
from datetime import datetime as moment
from time import time as seconds
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from agenttape_core.freeze import Frozen

    OpenSession = Callable[..., AbstractContextManager[Frozen]]

MOMENT = 1_700_000_000.25
REAL = {"time": time.time}  # a dict, as a session exchanges what is a global


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


def test_spans_are_measured_for_real(session: OpenSession) -> None:
    """`perf_counter`, `monotonic` and `sleep` are never frozen."""
    with session():
        before = time.perf_counter(), time.monotonic_ns()
        time.sleep(0.001)
        assert time.perf_counter() - before[0] >= 0.001
        assert time.monotonic_ns() > before[1]


async def test_the_event_loop_goes_on(session: OpenSession) -> None:
    """A sleep ends, a timeout expires."""
    with session():
        await asyncio.sleep(0.001)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)


def test_logging_works(session: OpenSession, caplog: pytest.LogCaptureFixture) -> None:
    """Records are made and formatted."""
    with session(), caplog.at_level(logging.INFO):
        logging.getLogger("agent").info("hello %s", "there")
    assert "hello there" in caplog.text


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
