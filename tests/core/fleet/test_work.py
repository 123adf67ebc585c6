"""The work on a plan: each recording gets one outcome, in names and places alone."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.fleet.items import read_plan
from agenttape_core.fleet.outcomes import Outcome, read_outcome
from agenttape_core.fleet.working import work

from . import desk
from .conftest import APP, Command

CITIES = ["Paris", "Oslo", "Rome refund", "Bern"]
RULES = "checks: 1\nevery:\n- never: refund\n- at_most: {calls: 6}\n"


def plan(fleet: Command, *words: str, file: str = "items.jsonl") -> str:
    """Write a plan, and return its name."""
    ended = fleet("plan", *words)
    assert ended.code == 0, ended.err
    Path(file).write_text(ended.out)
    return file


def outcomes(folder: str = "out") -> list[Outcome]:
    """Return the outcomes in a store, by recording."""
    files = Path(folder).glob("results/*/*.json")
    return sorted((read_outcome(file.read_bytes(), file.name) for file in files), key=lambda one: one.cassette)


def verdicts(folder: str = "out") -> list[str]:
    """Return the verdicts in a store, by recording."""
    return [one.verdict for one in outcomes(folder)]


@pytest.fixture
def runs(fleet: Command) -> Path:
    """Record a run for each city, and write the rules."""
    del fleet
    Path("rules.yaml").write_text(RULES)
    return desk.record(Path("runs"), CITIES)


def test_checks(fleet: Command, runs: Path) -> None:
    """A run that breaks a rule is named with the rule, and all others are the same."""
    items = plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")
    ended = fleet("work", items, "--output", "out")
    assert (ended.code, ended.out) == (0, "shard 1/1: 4 items, 0 done before, 4 now (1 broken, 3 same)\n")
    found = outcomes()
    assert [one.verdict for one in found] == ["same", "same", "broken", "same"]
    assert found[2].rules == ("never refund",)
    assert [one.calls for one in found] == [2, 2, 3, 2]
    assert len({one.trajectory for one in found}) == 2


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("as recorded", ("same", "")),
        ("asks otherwise", ("changed", "chat ask: new arguments.prompt")),
        ("raises", ("failed", "ValueError at ")),
        ("skips", ("changed", "chat ask: new arguments.prompt")),
    ],
)
def test_replays(fleet: Command, runs: Path, monkeypatch: pytest.MonkeyPatch, how: str, end: tuple[str, str]) -> None:
    """A strict replay shows a new request and a failure in words that are the same for like runs."""
    items = plan(fleet, str(runs), "--experiment", "replay", "--app", APP, "--revision", "r1")
    monkeypatch.setattr(desk, "how", how)
    assert fleet("work", items, "--output", "out").code == 0
    found = outcomes()
    verdict, where = end
    assert {one.verdict for one in found} == {verdict}
    assert all(one.where.startswith(where) and bool(one.where) == bool(where) for one in found)
    assert len({one.cause for one in found}) == 1


def test_no_byte_of_a_message(fleet: Command, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes of a run, no outcome and no plan holds a byte of its messages, arguments and errors."""
    for how in ("as recorded", "asks otherwise", "raises", "skips"):
        monkeypatch.setattr(desk, "how", how)
        items = plan(fleet, str(runs), "--experiment", "replay", "--app", APP, "--revision", how)
        assert fleet("work", items, "--output", "out").code == 0
    assert len(outcomes()) == 16
    stored = [file.read_bytes() for file in Path("out").rglob("*") if file.is_file()]
    assert len(stored) == 20
    assert not any(desk.SECRET.encode() in data for data in stored)
    assert desk.SECRET in (runs / "000.yaml").read_text()


def test_same_plan(fleet: Command, runs: Path) -> None:
    """The same recordings and options give the same bytes, however the recordings are named."""
    words = ("--experiment", "check", "--checks", "rules.yaml")
    assert fleet("plan", runs, *words).out == fleet("plan", "runs/*.yaml", runs, *words).out


def test_only_what_is_missing(fleet: Command, runs: Path) -> None:
    """Shards share the items, and a second run does only those that have no outcome."""
    items = plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")
    assert fleet("work", items, "--output", "out", "--shard", "2/3", "--json").json["items"] in {1, 2}
    before = {one.item for one in outcomes()}
    ended = fleet("work", items, "--output", "out", "--concurrency", "3", "--json").json
    assert ended["known"] == len(before)
    assert sum(ended["verdicts"].values()) == 4 - len(before)
    assert fleet("work", items, "--output", "out", "--json").json["known"] == 4


def test_damaged_among_others(fleet: Command, runs: Path) -> None:
    """A damaged recording is unreadable, and the others get their outcomes."""
    damaged = runs / "001.yaml"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    (runs / "notes.yaml").write_text("title: not a recording\n")
    items = plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")
    assert fleet("work", items, "--output", "out").code == 0
    assert verdicts() == ["same", "unreadable", "broken", "same"]
    assert outcomes()[1].where.startswith("the recording is damaged")


def test_changed_since_the_plan(fleet: Command, runs: Path) -> None:
    """A recording that was changed or deleted since gets no outcome, is named, and holds up no other."""
    items = plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")
    desk.record(runs, ["London"])
    (runs / "001.yaml").unlink()
    ended = fleet("work", items, "--output", "out")
    assert ended.code == 3
    assert "its bytes have changed" in ended.err
    assert "2 items not done" in ended.err
    assert verdicts() == ["broken", "same"]


def test_items_by_any_engine(fleet: Command, runs: Path) -> None:
    """One function does one item, given the settings of its plan; an outcome that is there isn't made again."""
    made = read_plan(
        Path(plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")).read_text(), "items"
    )
    first = [work(item, output="out", settings=made.settings) for item in made.items]
    place = Path("out", first[0].key)
    stamp = place.stat().st_mtime_ns
    assert [work(item, output="out", settings=made.settings) for item in made.items] == first
    assert place.stat().st_mtime_ns == stamp
    with pytest.raises(ConfigurationError, match="aren't those that its item was planned with"):
        work(made.items[0], output="out", settings={})


def test_memory_as_store(fleet: Command, runs: Path) -> None:
    """Outcomes in a store behind a URL are those in a folder, byte for byte."""
    items = plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")
    assert fleet("work", items, "--output", "out").code == 0
    url = "memory://fleet-outcomes"
    assert fleet("work", items, "--output", url, "--json").json["known"] == 0
    assert fleet("work", items, "--output", url, "--json").json["known"] == 4
    made = read_plan(Path(items).read_text(), "items")
    stored = [work(item, output=url, settings=made.settings) for item in made.items]
    assert [one.to_bytes() for one in stored] == [one.to_bytes() for one in outcomes()]


def test_a_recording_of_a_newer_version(fleet: Command, runs: Path) -> None:
    """One recording of an unknown format is named, and all others are checked."""
    (runs / "new.yaml").write_text("agenttape: 99\nall: new\n")
    items = plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")
    assert fleet("work", items, "--output", "out").code == 0
    assert [(one.verdict, one.cassette) for one in outcomes()][4:] == [("unreadable", "runs/new.yaml")]
    ended = fleet("merge", "out")
    assert (ended.code, "is of a format that this version" in ended.out) == (3, True)


def test_a_limit_without_a_plan(fleet: Command, runs: Path) -> None:
    """Workers that couldn't see each other's spending do nothing."""
    made = read_plan(
        Path(plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")).read_text(), "items"
    )
    with pytest.raises(ConfigurationError, match="id of their plan"):
        work(made.items[0], output="out", settings=made.settings, max_usd=1)
    assert not Path("out").exists()


def test_recordings_behind_urls(fleet: Command, runs: Path) -> None:
    """Recordings behind a URL are checked and replayed like files, and a command that needs files is refused."""
    del runs
    desk.record("memory://fleet-runs", CITIES)
    for how in (("check", "--checks", "rules.yaml"), ("replay", "--app", APP, "--revision", "r1")):
        items = plan(fleet, "memory://fleet-runs", "--experiment", *how)
        assert fleet("work", items, "--output", "out").code == 0
    assert Counter(verdicts()) == {"same": 7, "broken": 1}
    words = ("--experiment", "replay", "--program", "-- python agent.py", "--revision", "r1")
    refused = fleet("work", plan(fleet, "memory://fleet-runs", *words), "--output", "out")
    assert (refused.code, "download" in refused.err) == (2, True)


def test_scripts(fleet: Command, runs: Path) -> None:
    """A script is executed once for all items, even by several threads."""
    Path("script.py").write_text(
        f"from {desk.__name__} import answer\nwith open('loaded', 'a') as file:\n    file.write('once ')\n"
    )
    items = plan(fleet, str(runs), "--experiment", "replay", "--app", "script.py:answer", "--revision", "r1")
    assert fleet("work", items, "--output", "out", "--concurrency", "4").code == 0
    assert (verdicts(), Path("loaded").read_text()) == (["same"] * 4, "once ")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("work", "items.jsonl", "--shard", "9/8"), "there is no such shard"),
        (("work", "items.jsonl", "--shard", "0/8"), "there is no such shard"),
        (("work", "items.jsonl", "--shard", "env"), "no variable numbers this job"),
        (("work", "rules.yaml"), "not a plan"),
        (("work", "none.jsonl"), "can't be read"),
    ],
)
def test_bad_work(
    fleet: Command, runs: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], problem: str
) -> None:
    """Work that can't begin is refused with the reason, before anything is stored."""
    for name in ("CI_NODE_INDEX", "CIRCLE_NODE_INDEX", "BUILDKITE_PARALLEL_JOB", "STRATEGY_JOB_INDEX"):
        monkeypatch.delenv(name, raising=False)
    plan(fleet, str(runs), "--experiment", "check", "--checks", "rules.yaml")
    ended = fleet(*words, "--output", "out")
    assert ended.code == 2
    assert problem in ended.err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--experiment", "check"), "--checks FILE"),
        (("--experiment", "replay"), "needs a program"),
        (("--experiment", "model", "--app", APP), "--model MODEL"),
    ],
)
def test_bad_plans(fleet: Command, runs: Path, words: tuple[str, ...], problem: str) -> None:
    """A plan without what its experiment needs is refused with the option."""
    ended = fleet("plan", runs, *words)
    assert ended.code == 2
    assert problem in ended.err


def test_another_revision(fleet: Command, runs: Path) -> None:
    """A worker refuses to replay with another commit than the planned one, and with changes to it."""
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com"]
    Path("agent.py").write_text("how = 1\n")
    for words in (["init", "-q"], ["add", "agent.py"], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], check=True)
    items = plan(fleet, str(runs), "--experiment", "replay", "--app", APP)
    assert fleet("work", items, "--output", "out").code == 0
    Path("agent.py").write_text("how = 2\n")
    ended = fleet("work", items, "--output", "out")
    assert ended.code == 2
    assert "git checkout" in ended.err
