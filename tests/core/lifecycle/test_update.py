"""The mode `update`: serve what is recorded, execute what has changed, drop what nobody asks for any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, recover, use_cassette
from agenttape_core.storage import leftover_journals

from ..session.world import CASSETTE, World, ask, call, entries, files, record

pytestmark = pytest.mark.usefixtures("project")


def texts() -> dict[str, str]:
    """Return what the file holds of each call, by name."""
    parts = CASSETTE.read_text().split("\n---\n")
    return {entry.name: part for entry, part in zip(open_cassette(CASSETTE).entries, parts[1:], strict=False)}


def test_only_what_changed_is_executed(world: World) -> None:
    """A call without a recording is executed in its place, one that nobody asks for goes, and the rest stays."""
    record(world, "a", "b", "c")
    before = texts()
    with use_cassette("c", mode="update") as session:
        assert ask(world, "a", "new", "c") == ["a 1", "new 4", "c 3"]
    assert str(session.report) == "2 replayed, 1 recorded, 1 unused"
    assert entries() == ["a", "new", "c"]
    assert (texts()["a"], texts()["c"]) == (before["a"], before["c"])
    with use_cassette("c") as session:
        assert ask(world, "a", "new", "c") == ["a 1", "new 4", "c 3"]
    assert str(session.report) == "3 replayed, 0 recorded"


def test_an_unchanged_run_leaves_the_file(world: World) -> None:
    """A run that asks for what is recorded changes no byte."""
    before = record(world, "a", "b")
    with use_cassette("c", mode="update"):
        ask(world, "a", "b")
    assert (CASSETTE.read_bytes(), files()) == (before, ["c.yaml"])


def test_without_a_cassette_everything_is_recorded(world: World) -> None:
    """Without a cassette it is a first recording."""
    with use_cassette("c", mode="update"):
        ask(world, "a")
    assert entries() == ["a"]


def test_what_other_runs_ask_for_stays(world: World) -> None:
    """A cassette that serves several runs (`on_unused="ignore"`) keeps what this one does not ask for."""
    record(world, "a", "b")
    with use_cassette("c", mode="update", on_unused="ignore"):
        assert ask(world, "b", "new") == ["b 2", "new 3"]
    assert entries() == ["a", "b", "new"]
    with use_cassette("c", on_unused="ignore"):
        assert ask(world, "a") == ["a 1"]


def test_a_failed_run_changes_nothing(world: World) -> None:
    """A run that fails leaves the cassette as it was, and its recording in a journal."""
    before = record(world, "a")
    with pytest.raises(ZeroDivisionError), use_cassette("c", mode="update"):
        ask(world, "new")
        raise ZeroDivisionError
    assert CASSETTE.read_bytes() == before


def test_asked_once_more_than_recorded(world: World) -> None:
    """A request that is repeated more often than it was recorded is executed as often as it lacks."""
    record(world, "a")
    with use_cassette("c", mode="update"):
        assert ask(world, "a", "a") == ["a 1", "a 2"]
    assert entries() == ["a", "a"]


def test_live_is_replaced(world: World) -> None:
    """What is live is executed and takes the place of its recording."""
    record(world, "a", "b")
    with use_cassette("c", mode="update", live={"a"}):
        assert ask(world, "a", "b") == ["a 3", "b 2"]
    assert [item.outcome.value for item in open_cassette(CASSETTE).interactions()] == ["a 3", "b 2"]


def test_calls_inside_a_replayed_tool_stay(world: World) -> None:
    """A tool that is replayed keeps the calls that were recorded inside it."""

    def run(name: str) -> None:
        call("outer", lambda: world.reach(world.tool("inner", of="outer")), x=1)
        ask(world, name)

    with use_cassette("c", mode="all", step_into=()):
        run("a")
    with use_cassette("c", mode="update", replay_only={"outer"}):
        run("b")
    assert entries() == ["outer", "inner", "b"]
    parents = {item.name: item.parent for item in open_cassette(CASSETTE).interactions()}
    assert parents["inner"] == 1


@pytest.mark.parametrize(("again", "left"), [(["x"], ["x", "y"]), (["x", "z"], ["x", "z"])])
def test_embeddings_of_others(world: World, again: list[str], left: list[str]) -> None:
    """An embedding that nobody asked for stays, as a store of another test may need it, unless the run made others."""

    def embed(texts: list[str]) -> None:
        for text in texts:
            call("E", lambda: [0.5], "embeddings", input=text)
        ask(world, "t")

    with use_cassette("c", mode="all"):
        embed(["x", "y"])
    with use_cassette("c", mode="update"):
        embed(again)
    recorded = [item.request.get("input") for item in open_cassette(CASSETTE).interactions() if item.name == "E"]
    assert recorded == left


def interrupted(world: World, *asked: str, mode: Any = "update") -> Path:
    """Make calls until a person has had enough, and return the journal that is left."""
    with pytest.raises(KeyboardInterrupt), use_cassette("c", mode=mode):
        ask(world, *asked)
        raise KeyboardInterrupt
    return leftover_journals(CASSETTE.absolute())[-1]


@pytest.mark.parametrize("is_recovered", [False, True])
def test_what_was_paid_is_not_paid_again(world: World, is_recovered: bool) -> None:
    """After an interruption the next run replays the calls that the first has recorded, and executes the rest."""
    before = record(world, "a", "b", "c")
    journal = interrupted(world, "a", "new", "newer")
    assert CASSETTE.read_bytes() == before
    if is_recovered:
        recover(journal)
    with use_cassette("c", mode="update") as session:
        assert ask(world, "a", "new", "newer", "newest") == ["a 1", "new 4", "newer 5", "newest 6"]
    assert str(session.report) == "3 replayed, 1 recorded, 2 unused"
    assert files() == (["c.recovered.yaml", "c.yaml"] if is_recovered else ["c.yaml"])
    header = open_cassette(CASSETTE).header
    assert set(header.volatile.timings) == {1, 2, 3, 4}
    with use_cassette("c") as session:
        assert ask(world, "a", "new", "newer", "newest") == ["a 1", "new 4", "newer 5", "newest 6"]


def test_all_was_paid(world: World) -> None:
    """If nothing is left to execute, what was paid becomes part of the cassette."""
    record(world, "a")
    interrupted(world, "a", "new")
    with use_cassette("c", mode="update") as session:
        assert ask(world, "a", "new") == ["a 1", "new 2"]
    assert (str(session.report), entries(), files()) == ("2 replayed, 0 recorded", ["a", "new"], ["c.yaml"])


def test_what_was_paid_in_vain(world: World) -> None:
    """What nobody asks for is not counted, and changes no byte; what the cassette has is not there twice."""
    before = record(world, "a", "b")
    recover(interrupted(world, "b", "other", mode="all"))
    with use_cassette("c", mode="update") as session:
        ask(world, "a", "b")
    assert (str(session.report), CASSETTE.read_bytes()) == ("2 replayed, 0 recorded", before)
    with use_cassette("c", mode="update") as session:
        assert ask(world, "a", "b", "b") == ["a 1", "b 2", "b 5"]


def test_of_another_kind(world: World) -> None:
    """Recordings whose requests are compared in another way, or that nobody can read, are left out."""
    record(world, "a")
    journal = interrupted(world, "new")
    broken = recover(journal)
    broken.with_name("c.recovered-2.yaml").write_bytes(broken.read_bytes().replace(b"agenttape: ", b"agenttape: 9"))
    broken.write_text(broken.read_text().replace("redaction:", "ignore: [arguments.x]\nredaction:"))
    with use_cassette("c", mode="update") as session:
        assert ask(world, "a", "new") == ["a 1", "new 3"]
    assert str(session.report) == "1 replayed, 1 recorded"
