"""The traps of a frozen clock, each by its name, with both clocks and through the public face."""

# Naive moments are part of what is tested.
# ruff: noqa: DTZ005, DTZ006, DTZ011

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import datetime as dt
import importlib
import logging
import sys
import threading
import time
import types
import uuid
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from time import time as time_before
from typing import TYPE_CHECKING, Any
from uuid import UUID
from uuid import uuid4 as uuid4_before

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from agenttape_core import use_cassette

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("project")

REAL: dict[str, Any] = {"datetime": dt.datetime, "date": dt.date}  # a dict, as a session exchanges what is a global


@pytest.fixture(params=["clock", "clock:ticking"])
def clock(request: pytest.FixtureRequest) -> str:
    """Which clock the session has."""
    kind: str = request.param
    return kind


@pytest.fixture
def _inside(project: Path, clock: str) -> Iterator[None]:
    """Run the test in a session."""
    with use_cassette("traps", mode="once", freeze=(clock, "uuid", "random")):
        yield


inside = pytest.mark.usefixtures("_inside")


@inside
def test_isinstance_holds() -> None:
    """A moment is an instance of what `datetime` is called, and a day of `date`."""
    assert isinstance(datetime.now(), datetime)
    assert isinstance(datetime.now(), dt.datetime)
    assert isinstance(datetime.now(), date)
    assert isinstance(date.today(), dt.date)
    assert type(datetime.now()) is REAL["datetime"]


@inside
def test_names_from_before_and_from_inside_agree(clock: str) -> None:
    """It does not matter when a name was imported: both are frozen, and draw on the same."""
    from time import time as time_inside
    from uuid import uuid4 as uuid4_inside

    first, second = time_before(), time_inside()
    assert first == second if clock == "clock" else first <= second < first + 60
    assert uuid4_before is uuid4_inside
    assert len({uuid4_before(), uuid4_inside()}) == 2


@inside
def test_models_defined_inside() -> None:
    """Fields of moments, days and ids validate, have a schema and make their defaults."""

    class Event(BaseModel):
        at: datetime = Field(default_factory=datetime.now)
        day: date = Field(default_factory=date.today)
        id: UUID = Field(default_factory=uuid.uuid4)
        ends: datetime | None = None
        days: list[date] = []

    event = Event.model_validate({"ends": "2020-01-02T03:04:05Z", "days": ["2020-01-02"]})
    assert (event.ends, event.days) == (datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), [date(2020, 1, 2)])
    assert (type(event.at), type(event.day)) == (REAL["datetime"], REAL["date"])
    assert event.at <= datetime.now() < event.at + timedelta(minutes=1)
    assert Event.model_validate_json(event.model_dump_json()) == event
    fields = Event.model_json_schema()["properties"]
    assert [fields[name]["format"] for name in ("at", "day", "id")] == ["date-time", "date", "uuid"]
    with pytest.raises(ValueError, match="datetime"):
        Event.model_validate({"at": "noon"})
    assert TypeAdapter(dict[date, datetime]).validate_python({"2020-01-02": 0}) == {
        date(2020, 1, 2): datetime(1970, 1, 1, tzinfo=UTC)
    }


@inside
async def test_asyncio_ends() -> None:
    """Sleeps, timeouts and deadlines of the event loop end, in whatever way they are asked for."""
    await asyncio.sleep(0.001)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, done.set)
    await done.wait()
    finished, waiting = await asyncio.wait([asyncio.create_task(asyncio.sleep(60))], timeout=0.001)
    assert not finished
    for task in waiting:
        task.cancel()


@inside
async def test_spans_are_never_frozen() -> None:
    """`perf_counter`, `monotonic` and the event loop's clock run, by name and in nanoseconds."""
    loop = asyncio.get_running_loop()
    clocks: list[Callable[[], float]] = [
        time.perf_counter,
        time.perf_counter_ns,
        time.monotonic,
        time.monotonic_ns,
        loop.time,
    ]
    before = [read() for read in clocks]
    await asyncio.sleep(0.002)
    assert [read() > begun for read, begun in zip(clocks, before, strict=True)] == [True] * len(clocks)


@inside
def test_logging_has_a_time(caplog: pytest.LogCaptureFixture) -> None:
    """A record bears the session's time and can be formatted."""
    with caplog.at_level(logging.INFO):
        before = time.time()
        logging.getLogger("agent").info("hello")
    rounding = 1e-6  # from Python 3.13 on, its time is one in nanoseconds, rounded
    assert before - 1 <= caplog.records[0].created <= time.time() + rounding
    formatted = logging.Formatter("%(asctime)s %(message)s").format(caplog.records[0])
    assert formatted.startswith(f"{datetime.now():%Y-}")


@inside
def test_a_tool_that_travels_in_time_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """As freezegun does, by a function in the place of `time.time`; when it has left, the session's clock is back."""
    before = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 86_400.0)
        assert time.time() == 86_400.0
        assert datetime.now(UTC) == datetime(1970, 1, 2, tzinfo=UTC)
        assert date.today() == datetime.fromtimestamp(86_400.0).date()
        assert time.time_ns() == 86_400 * 10**9
    assert before <= time.time() < before + 60


@inside
def test_a_tool_behind_the_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """As time-machine does, which changes what is behind `time.time` and says so: the session's clock steps aside."""
    frozen = time.time()
    escape_hatch = types.SimpleNamespace(is_travelling=lambda: True)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "time_machine", types.SimpleNamespace(escape_hatch=escape_hatch))
        assert time.time() > frozen
        escape_hatch.is_travelling = lambda: False
        assert frozen <= time.time() < frozen + 60


@inside
def test_seconds_and_nanoseconds_agree(clock: str) -> None:
    """`time`, `time_ns`, `clock_gettime` and `datetime` tell one time."""
    looks = [
        time.time(),
        time.time_ns() / 1e9,
        time.clock_gettime(time.CLOCK_REALTIME),
        time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9,
        datetime.now(UTC).timestamp(),
        datetime.now().timestamp(),
    ]
    steps = [later - look for look, later in pairwise(looks)]
    # `datetime` is exact to the microsecond, and so is a float at this magnitude.
    assert all(-2e-6 < step < (60 if clock == "clock:ticking" else 2e-6) for step in steps)
    assert time.clock_gettime(time.CLOCK_MONOTONIC) <= time.monotonic()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system has one time zone per process")
@inside
@pytest.mark.parametrize(("zone", "hours"), [("UTC0", 0), ("EAST-5", 5), ("WEST+8", -8)])
def test_local_times_follow_the_zone(zone: str, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment is frozen, the zone is the machine's: local times of one moment differ by it."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        seconds = time.time()
        assert time.localtime(seconds).tm_gmtoff == time.localtime().tm_gmtoff == hours * 3600
        shift = timedelta(hours=hours)
        apart = datetime.now() - datetime.now(UTC).replace(tzinfo=None)
        assert abs(apart - shift) < timedelta(seconds=5)
        assert datetime.now().astimezone().utcoffset() == shift
    time.tzset()


@inside
def test_a_module_imported_during_the_session(write_module: Callable[[str, str], str]) -> None:
    """Its names are frozen at once, whatever it calls them."""
    source = (
        "from time import time as t\nfrom datetime import datetime as d, date as day\nfrom uuid import uuid4 as u\n"
    )
    module: Any = importlib.import_module(write_module("trap_late", source))
    assert time.time() - 60 < module.t() <= time.time()
    assert isinstance(module.d.now(), datetime)
    assert module.day.today() == date.today()
    assert module.u is uuid.uuid4


def test_threads(clock: str) -> None:
    """A thread that is begun in the session has the session's clock, with its context or without one."""
    seen: dict[str, float] = {}
    with use_cassette("traps", mode="once", freeze=(clock,)):
        time.sleep(0.001)
        begun = time.time()
        context = contextvars.copy_context()
        threads = [
            threading.Thread(target=lambda: seen.update(bare=time.time())),
            threading.Thread(target=context.run, args=(lambda: seen.update(ours=time.time()),)),
        ]
        for thread in threads:
            thread.start()
            thread.join()
        ended = time.time()
    assert begun <= seen["ours"] <= ended
    if clock == "clock":
        assert seen["ours"] == begun == seen["bare"]


async def test_a_thread_of_asyncio_has_the_sessions_clock() -> None:
    """`asyncio.to_thread` takes the context along."""
    with use_cassette("traps", mode="once"):
        assert await asyncio.to_thread(time.time) == time.time()
        assert (await asyncio.to_thread(datetime.now, UTC)) == datetime.now(UTC)


def test_freezegun_looks_anew_after_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """It remembers which globals of a module are clocks; what it saw of a session would be wrong after it."""
    remembered = {"some.module": ("hash of its names", [("datetime", "a stand-in")])}
    monkeypatch.setitem(sys.modules, "freezegun.api", fake := types.ModuleType("freezegun.api"))
    monkeypatch.setattr(fake, "_GLOBAL_MODULES_CACHE", remembered, raising=False)
    with use_cassette("traps", mode="once"):
        assert remembered
    assert remembered == {}


@inside
def test_the_classes_are_the_real_ones() -> None:
    """For C code, and for whoever compares annotations by identity, there is no class but the real one."""
    module: Any = importlib.import_module("datetime")
    assert (module.datetime, module.date, dt.datetime) == (REAL["datetime"], REAL["date"], datetime)
    assert module.datetime is datetime is REAL["datetime"] is type(datetime.now())
    assert date is REAL["date"] is type(date.today())
    assert ctypes.pythonapi.PyType_IsSubtype(ctypes.py_object(datetime), ctypes.py_object(date)) == 1


def test_ids_of_modules_that_are_imported_are_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that finds a module imported draws the same ids as the one that imported it."""
    (tmp_path / "draws_an_id.py").write_text("from uuid import uuid4\nOWN = uuid4()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with use_cassette("traps", mode="once"):
        own = importlib.import_module("draws_an_id").OWN
        drawn = uuid.uuid4()
    with use_cassette("traps"):
        assert own == importlib.import_module("draws_an_id").OWN
        assert uuid.uuid4() == drawn != own
    monkeypatch.delitem(sys.modules, "draws_an_id")
