"""When each call ran: what is recorded of it, and how it is shown."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.cli.commands.show import bar_of
from agenttape_core.integration import Boundary
from agenttape_core.lifecycle.imported import CallFacts, Importing
from agenttape_core.schema import StepTiming, Timing, Volatile
from agenttape_core.tools.reading.timeline import Row, timeline_of

from ...kit.records import call, step, written


def test_one_after_the_other(command: Any) -> None:
    """Calls that follow each other begin when the one before has ended, or later."""
    shown = command("show", "--timeline", "weather", "--json").json
    assert (shown["guessed"], shown["most_at_once"]) == (0, 1)
    rows = shown["rows"]
    assert [row["label"] for row in rows] == ["answer", "look_up", "look_up#2"]
    assert rows[0]["start_ms"] == 0
    for before, after in pairwise(rows):
        assert after["start_ms"] >= before["start_ms"] + before["duration_ms"] - 0.2  # written with one place
    assert [row["has_failed"] for row in rows] == [False, False, True]


def test_parallel_calls(command: Any, folder: Path) -> None:
    """Calls that ran at the same time are seen to."""
    both = threading.Barrier(2)

    @boundary
    def meet(n: int) -> int:
        both.wait(60)
        return n

    with use_cassette("both", mode="all"), ThreadPoolExecutor(2) as threads:
        list(threads.map(meet, range(2)))
    assert command("show", "--timeline", "both", "--json").json["most_at_once"] == 2
    assert "at most 2 at once" in command("show", "--timeline", "both").out


@pytest.mark.process
def test_each_kind(command: Any, recorded: Path, kind: str) -> None:
    """Each framework's calls have their starts, within the steps around them; streams have their first chunk."""
    shown = command("show", "--timeline", recorded, "--json").json
    assert shown["guessed"] == 0
    calls = [row for row in shown["rows"] if row["word"] == "interaction"]
    assert all(row["start_ms"] >= 0 and row["start_ms"] + row["duration_ms"] <= shown["total_ms"] for row in calls)
    streamed = [row for row in calls if row["chunks_ms"]]
    assert bool(streamed) is (kind != "langgraph")
    steps = {row["address"]: row for row in shown["rows"] if row["word"] == "step"}
    for row in calls:
        around = steps.get(row["address"].rpartition("/")[0], {"start_ms": 0, "duration_ms": shown["total_ms"]})
        assert around["start_ms"] - 0.2 <= row["start_ms"]
        assert row["start_ms"] + row["duration_ms"] <= around["start_ms"] + around["duration_ms"] + 0.2
    out = command("show", "--timeline", recorded).out
    assert all(f"{row['number']} {row['kind']} " in out for row in calls)
    if kind == "langgraph":
        assert shown["most_at_once"] == 2
        assert [row["depth"] for row in shown["rows"]] == [0, 1, 2, 1, 2, 1, 2]


def test_bars() -> None:
    """A bar stands where the row ran; the first chunk and the later ones are marked on it."""
    row = Row("interaction", 1, "chat", "m", "m", "m", 0, 20.0, 50.0, (10.0, 30.0, 31.0))
    assert bar_of(row, 100.0, 10) == "  ━◆━•━━"
    assert bar_of(Row("step", 1, "node", "n", "n", "n", 0, 0.0, 100.0), 100.0, 4) == "────"
    assert bar_of(Row("interaction", 1, "call", "f", "f", "f", 0, 0.0, 0.0), 0.0, 4) == "━"


def test_older_cassettes(command: Any, folder: Path) -> None:
    """Where starts were not recorded, calls begin with the step around them, or after the call before; it is said."""
    timings = {number: Timing(duration_ms=10.0 * number) for number in (1, 2, 3, 4)}
    volatile = Volatile(timings=timings, steps={1: StepTiming(start_ms=500.0, duration_ms=70.0)})
    records = [call(1, "a"), step(1, "n"), call(2, "n/x"), call(3, "n/y"), call(4, "z")]
    path = written(folder / "old.yaml", *records, volatile=volatile)
    rows = timeline_of(open_cassette(path)).calls
    assert [row.start_ms for row in rows] == [0.0, 0.0, 20.0, 10.0]
    assert [row.is_measured for row in rows] == [False] * 4
    out = command("show", "--timeline", "old.yaml").out
    assert "~20 ms" in out
    assert "the start of 4 of them was not recorded" in out


def test_starts_outlive_the_way_into_the_file(folder: Path) -> None:
    """What is written with starts is read with them, with and without some."""
    timings = {1: Timing(start_ms=0.5, duration_ms=1.0, offsets_ms=[0.1]), 2: Timing(duration_ms=2.0)}
    path = written(folder / "some.yaml", call(1, "a"), call(2, "b"), volatile=Volatile(timings=timings))
    assert "\n    1 0.5+1.0 0.1\n    2 2.0\n" in path.read_text()
    assert open_cassette(path).header.volatile.timings == timings


def test_added_calls_have_no_start(folder: Path) -> None:
    """A call that is added to an earlier recording began in another run: its start would mean nothing."""
    ask = boundary(abs)
    with use_cassette("grown", mode="once"):
        ask(1)
    with use_cassette("grown", mode="new_episodes"):
        ask(1)
        ask(2)
    first, added = open_cassette(folder / "cassettes" / "grown.yaml").header.volatile.timings.values()
    assert first.start_ms is not None
    assert added.start_ms is None


def test_carried_calls_have_no_start(folder: Path) -> None:
    """In a derived cassette, what was replayed keeps its duration and loses the start that it had in another run."""
    ask, live = boundary("chat")(abs), boundary("tool")(abs)
    with use_cassette("first", mode="once"):
        ask(1)
        live(1)
    with use_cassette("first", live={"tool"}):
        ask(1)
        live(1)
    timings = open_cassette(folder / "cassettes" / "first.derived.yaml").header.volatile.timings
    assert [timings[number].start_ms is None for number in (1, 2)] == [True, False]


def test_imported_calls_have_no_start(folder: Path) -> None:
    """When another tool's recording is read says nothing of when its calls began."""
    with Importing("imported.yaml") as importing:
        importing.session_call(Boundary("call"), "f", {}, CallFacts(duration_ms=7.0)).returned(1)
    (timing,) = open_cassette(folder / "imported.yaml").header.volatile.timings.values()
    assert timing == Timing(duration_ms=7.0)


@pytest.mark.parametrize("timings", ["1 5.0+", "1 +5.0", "1 1.0+2.0+3.0", "1 5.0 1.0+2.0"])
def test_malformed_starts(command: Any, folder: Path, timings: str) -> None:
    """Starts that are none make the cassette malformed."""
    path = written(folder / "bad.yaml", call(1, "a"), volatile=Volatile(timings={1: Timing(duration_ms=5.0)}))
    path.write_text(path.read_text().replace("1 5.0\n", f"{timings}\n"))
    ended = command("show", "--timeline", "bad.yaml")
    assert (ended.code, "expected a timing such as" in ended.err) == (3, True)
