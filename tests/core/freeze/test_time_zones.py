"""A replay in another time zone reports that local times are other ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError

pytestmark = pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be set here")

TOKYO, UTC_ZONE, KOLKATA = "JST-9", "UTC0", "IST-5:30"


@boundary("chat")
def ask(question: str) -> str:
    """Answer."""
    return question


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the local time zone of this process."""

    def put(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


def test_a_miss_shows_both_zones(tmp_path: Path, in_zone: Callable[[str], None]) -> None:
    """It names what to set, so that the request is the recorded one again."""
    in_zone(KOLKATA)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        ask(f"It is {datetime.now().isoformat()}")  # noqa: DTZ005 - the local time is what it is about
    assert open_cassette(tmp_path / "c.yaml").preface.volatile.zone == "+0530 IST"
    in_zone(UTC_ZONE)
    with pytest.raises(CassetteMissError) as caught, use_cassette(tmp_path / "c.yaml"):
        ask(f"It is {datetime.now().isoformat()}")  # noqa: DTZ005 - as above
    lines = str(caught.value).splitlines()
    assert [line.strip() for line in lines[-6:-3]] == [
        "zone      recorded in the time zone +0530 IST, replayed in +0000 UTC: local times differ",
        "",
        "Any of these helps:",
    ]
    assert [line.partition(":  ")[0].strip() for line in lines[-3:]] == [
        "replay in its zone",
        "record it in this zone",
        "leave it out of the comparison",
    ]
    assert lines[-3].endswith(" TZ='<+0530>-05:30'")
    assert lines[-1].endswith(' ignore=["arguments.question"]')
    assert "outside the session" not in str(caught.value)
    in_zone("<+0530>-05:30")
    with use_cassette(tmp_path / "c.yaml") as cassette:
        ask(f"It is {datetime.now().isoformat()}")  # noqa: DTZ005 - as above
    assert cassette.report.entropy == ()


SHOWN: dict[str, Callable[[], str]] = {
    "an hour": lambda: time.strftime("It's %H:%M"),
    "an hour of twelve": lambda: time.strftime("It's %I:%M %p"),
    "with its zone": lambda: time.strftime("It's %Y-%m-%d %H:%M %Z"),
    "with its offset": lambda: datetime.now().astimezone().isoformat(),
    "as C shows it": lambda: f"It's {time.ctime()}",
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_miss_recognizes_local_times(name: str, tmp_path: Path, in_zone: Callable[[str], None]) -> None:
    """In another zone, a request that differs in its times alone is explained by that."""
    in_zone(TOKYO)
    with use_cassette(tmp_path / "c.yaml", mode="record"):
        ask(SHOWN[name]())
    in_zone(UTC_ZONE)
    with pytest.raises(CassetteMissError, match="replay in its zone") as caught, use_cassette(tmp_path / "c.yaml"):
        ask(SHOWN[name]())
    assert "Did you mean" not in str(caught.value)


def test_another_zone_is_no_reason_for_another_word(tmp_path: Path, in_zone: Callable[[str], None]) -> None:
    """A request that differs otherwise has the usual advice, and the zones are a fact beside it."""
    in_zone(TOKYO)
    with use_cassette(tmp_path / "c.yaml", mode="record"):
        ask("Paris")
    in_zone(UTC_ZONE)
    with (
        pytest.raises(CassetteMissError, match="Did you mean to change this") as caught,
        use_cassette(tmp_path / "c.yaml"),
    ):
        ask("Rome")
    assert "zone      recorded in the time zone +0900 JST, replayed in +0000 UTC" in str(caught.value)


LOCAL: list[Callable[[], Any]] = [
    lambda: datetime.now(),  # noqa: DTZ005, PLW0108 - the local time is what it is about
    lambda: datetime.today(),  # noqa: DTZ002, PLW0108 - as above
    lambda: date.today(),  # noqa: DTZ011, PLW0108 - as above
    lambda: time.localtime(),  # noqa: PLW0108 - by the module, as programs call it
    lambda: time.strftime("%H"),
    lambda: time.ctime(),  # noqa: PLW0108 - as above
    lambda: time.asctime(),  # noqa: PLW0108 - as above
]
ELSEWHERE: list[Callable[[], Any]] = [
    lambda: datetime.now(UTC),
    lambda: time.time(),  # noqa: PLW0108 - by the module, as programs call it
    lambda: time.gmtime(),  # noqa: PLW0108 - as above
    lambda: time.localtime(0),
]


@pytest.mark.parametrize("read", [*LOCAL, *ELSEWHERE])
def test_a_replay_reports_another_zone_where_it_matters(
    read: Callable[[], Any], tmp_path: Path, in_zone: Callable[[str], None]
) -> None:
    """Only code that reads a local time is reported: moments, and times in UTC, are equal in all zones."""
    reports = []
    for mode, zone in (("all", UTC_ZONE), ("none", UTC_ZONE), ("none", "GMT0"), ("none", TOKYO)):
        in_zone(zone)
        with use_cassette(tmp_path / "c.yaml", mode=mode) as cassette:
            ask("x")
            read()
        reports.append(cassette.report.entropy)
    said = "recorded in the time zone +0000 UTC, replayed in +0900 JST: local times differ; replay with TZ=UTC"
    assert reports == [(), (), (), (said,) if read in LOCAL else ()]


def test_a_recording_that_freezes_no_clock_keeps_no_zone(tmp_path: Path) -> None:
    """Its times are real in any case."""
    with use_cassette(tmp_path / "c.yaml", mode="all", freeze=["uuid"]):
        ask("x")
    assert "zone:" not in (tmp_path / "c.yaml").read_text()
