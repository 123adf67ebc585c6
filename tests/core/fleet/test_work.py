"""The work on a plan, on any engine: each recording gets one outcome, in names and places, also if workers die."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from random import Random
from textwrap import dedent

import fsspec
import pytest
import yaml

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.fleet import read_report
from agenttape_core.fleet.items import read_plan, shard_named
from agenttape_core.fleet.outcomes import key_of, outcomes_in
from agenttape_core.fleet.working import work, work_all
from agenttape_core.storage import below, location_of
from agenttape_core.storage.files import packed_bytes
from agenttape_core.storage.stores import store_of

from ...kit.git import git
from . import desk
from .conftest import APP, CHECK, CITIES, REPLAY, RULES, Command, outcomes, plan, planned


def verdicts() -> list[str]:
    """Return the verdicts in a store, by recording."""
    return [one.verdict for one in outcomes()]


def test_checks(fleet: Command, runs: str) -> None:
    """A run that breaks a rule is named with the rule, and all others are the same."""
    items = plan(fleet, runs, *CHECK)
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
def test_replays(fleet: Command, runs: str, monkeypatch: pytest.MonkeyPatch, how: str, end: tuple[str, str]) -> None:
    """A strict replay shows a new request and a failure in words that are the same for like runs."""
    items = plan(fleet, runs, *REPLAY)
    monkeypatch.setattr(desk, "how", how)
    assert fleet("work", items, "--output", "out").code == 0
    found = outcomes()
    verdict, where = end
    assert {one.verdict for one in found} == {verdict}
    assert all(one.where.startswith(where) and bool(one.where) == bool(where) for one in found)
    assert len({one.cause for one in found}) == 1


def test_no_byte_of_a_message(fleet: Command, runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes of a run, no outcome and no plan holds a byte of its messages, arguments and errors."""
    for how in ("as recorded", "asks otherwise", "raises", "skips"):
        monkeypatch.setattr(desk, "how", how)
        items = plan(fleet, runs, "--experiment", "replay", "--app", APP, "--revision", how)
        assert fleet("work", items, "--output", "out").code == 0
    assert len(outcomes()) == 16
    stored = [file.read_bytes() for file in Path("out").rglob("*") if file.is_file()]
    assert len(stored) == 20
    assert not any(desk.SECRET.encode() in data for data in stored)
    assert desk.SECRET in Path(runs, "000.yaml").read_text()


def test_same_plan(fleet: Command, runs: str) -> None:
    """The same recordings and options give the same bytes, however the recordings are named."""
    assert fleet("plan", runs, *CHECK).out == fleet("plan", "runs/*.yaml", runs, *CHECK).out


def test_only_what_is_missing(fleet: Command, runs: str) -> None:
    """Shards share the items, and a second run does only those that have no outcome."""
    items = plan(fleet, runs, *CHECK)
    assert fleet("work", items, "--output", "out", "--shard", "2/3", "--json").json["items"] in {1, 2}
    before = {one.item for one in outcomes()}
    ended = fleet("work", items, "--output", "out", "--concurrency", "3", "--json").json
    assert ended["known"] == len(before)
    assert sum(ended["verdicts"].values()) == 4 - len(before)
    assert fleet("work", items, "--output", "out", "--json").json["known"] == 4


def test_damaged_among_others(fleet: Command, runs: str) -> None:
    """A damaged recording, or one of a newer version, is unreadable and named, and the others get their outcomes."""
    damaged = Path(runs, "001.yaml")
    damaged.write_bytes(damaged.read_bytes()[:-40])
    Path(runs, "new.yaml").write_text("agenttape: 99\nall: new\n")
    Path(runs, "notes.yaml").write_text("title: not a recording\n")
    items = plan(fleet, runs, *CHECK)
    assert fleet("work", items, "--output", "out").code == 0
    assert verdicts() == ["same", "unreadable", "broken", "same", "unreadable"]
    assert outcomes()[1].where.startswith("the recording is damaged")
    ended = fleet("merge", "out")
    assert (ended.code, "is of a format that this version" in ended.out) == (3, True)


def test_changed_since_the_plan(fleet: Command, runs: str) -> None:
    """A recording that was changed or deleted since gets no outcome, is named, and holds up no other."""
    items = plan(fleet, runs, *CHECK)
    desk.record(runs, ["London"])
    Path(runs, "001.yaml").unlink()
    ended = fleet("work", items, "--output", "out")
    assert ended.code == 3
    assert "its bytes have changed" in ended.err
    assert "2 items not done" in ended.err
    assert verdicts() == ["broken", "same"]


def test_items_by_any_engine(fleet: Command, runs: str) -> None:
    """One function does one item, given the settings of its plan; an outcome that is there isn't made again."""
    made = planned(fleet, runs, *CHECK)
    first = [work(item, output="out", settings=made.settings) for item in made.items]
    place = Path("out", first[0].key)
    stamp = place.stat().st_mtime_ns
    assert [work(item, output="out", settings=made.settings) for item in made.items] == first
    assert place.stat().st_mtime_ns == stamp
    with pytest.raises(ConfigurationError, match="aren't those that its item was planned with"):
        work(made.items[0], output="out", settings={})


def test_memory_as_store(fleet: Command, runs: str) -> None:
    """Outcomes in a store behind a URL are those in a folder, byte for byte."""
    items = plan(fleet, runs, *CHECK)
    assert fleet("work", items, "--output", "out").code == 0
    url = "memory://fleet-outcomes"
    assert fleet("work", items, "--output", url, "--json").json["known"] == 0
    assert fleet("work", items, "--output", url, "--json").json["known"] == 4
    made = read_plan(Path(items).read_text(), "items")
    stored = [work(item, output=url, settings=made.settings) for item in made.items]
    assert [one.to_bytes() for one in stored] == [one.to_bytes() for one in outcomes()]


def test_a_limit_without_a_plan(fleet: Command, runs: str) -> None:
    """Workers that couldn't see each other's spending do nothing."""
    made = planned(fleet, runs, *CHECK)
    with pytest.raises(ConfigurationError, match="id of their plan"):
        work(made.items[0], output="out", settings=made.settings, max_usd=1)
    assert not Path("out").exists()


def test_recordings_behind_urls(fleet: Command, runs: str) -> None:
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


def test_scripts(fleet: Command, runs: str) -> None:
    """A script is executed once for all items, even by several threads."""
    Path("script.py").write_text(
        f"from {desk.__name__} import answer\nwith open('loaded', 'a') as file:\n    file.write('once ')\n"
    )
    items = plan(fleet, runs, "--experiment", "replay", "--app", "script.py:answer", "--revision", "r1")
    assert fleet("work", items, "--output", "out", "--concurrency", "4").code == 0
    assert (verdicts(), Path("loaded").read_text()) == (["same"] * 4, "once ")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("work", "items.jsonl", "--shard", "9/8"), "no such shard"),
        (("work", "items.jsonl", "--shard", "0/8"), "no such shard"),
        (("work", "items.jsonl", "--shard", "env"), "no variable numbers this job"),
        (("work", "rules.yaml"), "not a plan"),
        (("work", "none.jsonl"), "can't be read"),
    ],
)
def test_bad_work(
    fleet: Command, runs: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], problem: str
) -> None:
    """Work that can't begin is refused with the reason, before anything is stored."""
    for name in ("CI_NODE_INDEX", "CIRCLE_NODE_INDEX", "BUILDKITE_PARALLEL_JOB", "STRATEGY_JOB_INDEX"):
        monkeypatch.delenv(name, raising=False)
    plan(fleet, runs, *CHECK)
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
def test_bad_plans(fleet: Command, runs: str, words: tuple[str, ...], problem: str) -> None:
    """A plan without what its experiment needs is refused with the option."""
    ended = fleet("plan", runs, *words)
    assert ended.code == 2
    assert problem in ended.err


def test_revisions(fleet: Command, runs: str) -> None:
    """A plan has the commit of a name; a worker refuses another one, and changes to it; other names are reported."""

    def commit(text: str) -> None:
        Path("agent.py").write_text(text)
        for words in (["init", "-q"], ["add", "agent.py"], ["commit", "-qm", "Change it"]):
            git(*words)

    words = (runs, *REPLAY[:-1])
    told = fleet("work", plan(fleet, *words, "r1"), "--output", "out")
    assert (told.code, "revision r1 of the plan can't be compared" in told.err) == (0, True)
    commit("how = 1\n")
    git("branch", "before")
    items = plan(fleet, *words, "before")
    ended = fleet("work", items, "--output", "out")
    assert (ended.code, ended.err) == (0, "")
    Path("agent.py").write_text("how = 2\n")
    ended = fleet("work", items, "--output", "out")
    assert (ended.code, "git checkout" in ended.err) == (2, True)
    commit("how = 3\n")
    assert fleet("work", items, "--output", "out").code == 2
    assert Path(items).read_text() == fleet("plan", *words, "before").out
    unknown = fleet("plan", *words, "none")
    assert (unknown.code, "name a commit, branch or tag" in unknown.err) == (2, True)


@pytest.mark.parametrize("store", ["out", "memory://damaged-results"])
def test_damaged_results(fleet: Command, runs: str, store: str) -> None:
    """An empty result, and a copy of another item's, are named, don't count, and are made again."""
    items = plan(fleet, runs, *CHECK)
    made = read_plan(Path(items).read_text(), items)
    assert fleet("work", items, "--output", store).code == 0
    whole = [one.to_bytes() for one in outcomes_in(store, {item.id for item in made.items})]
    first, second, third = (below(location_of(store), key_of(item.id)) for item in made.items[:3])
    for place, data in ((first, b""), (second, packed_bytes(third))):
        folder, key = store_of(place)
        folder.save(key, data)
    merged = fleet("merge", store, "--json").json
    assert (merged["done"], len(merged["damaged"]), len(merged["missing"])) == (2, 2, 2)
    again = fleet("work", items, "--output", store)
    assert (again.code, again.err.count("not the outcome of its item; made again")) == (0, 2)
    assert "2 done before, 2 now" in again.out
    assert [one.to_bytes() for one in outcomes_in(store, {item.id for item in made.items})] == whole
    assert fleet("merge", store, "--json").json["damaged"] == []


def test_a_store_that_cannot_be_listed(fleet: Command, runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that refuses to be listed ends each command with 3 and its reason, and nothing is worked on."""
    items = plan(fleet, runs, *CHECK)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "find", refused)
    url = "memory://unlisted"
    for words in (
        ("plan", url, *CHECK),
        ("work", items, "--output", url),
        ("merge", url),
        ("index", url),
        ("forget", url, "--older-than", "1d"),
    ):
        ended = fleet(*words)
        assert (ended.code, "the store can't be listed" in ended.err, "Access Denied" in ended.err) == (3, True, True)
    assert not [name for name in fsspec.filesystem("memory").store if "unlisted/results" in name]


@pytest.mark.process
def test_the_hash_seed(fleet: Command) -> None:
    """Recordings are replayed with their hash seed, also where the plan comes from standard input."""
    agent = dedent("""
        from agenttape_core import boundary, use_cassette

        @boundary("chat")
        def ask(prompt):
            return "fine"

        def answer(question):
            return ask(" ".join({f"{question} {number}" for number in range(100)}))

        if __name__ == "__main__":
            with use_cassette("runs/one.yaml", mode="record") as cassette:
                cassette.note_input({"question": "why"})
                answer("why")
    """)

    def ended(*words: str, seed: str, given: str = "") -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, *words]
        done = subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=True)
        return done.stdout

    Path("agent.py").write_text(agent)
    ended("agent.py", seed="3")
    plan = fleet("plan", "runs", "--experiment", "replay", "--app", "agent:answer", "--revision", "1").out
    work = ("-c", "from agenttape_core.cli import main; main()", "fleet", "work", "-", "--output", "out")
    assert "1 same" in ended(*work, seed="5", given=plan)


@pytest.mark.process
def test_a_plan_that_is_printed_among_recordings(fleet: Command) -> None:
    """The file that a plan is printed to isn't one of its recordings, though it's empty by then."""
    expected = desk.record(Path("runs"), ["Paris"])
    words = ["plan", str(expected), *REPLAY]
    command = [sys.executable, "-c", "from agenttape_core.cli import main; main()", "fleet", *words]
    with Path("runs/items.jsonl").open("w") as file:
        subprocess.run(command, stdout=file, check=True)
    printed = Path("runs/items.jsonl").read_text()
    assert len(printed.splitlines()) == 2
    Path("runs/items.jsonl").unlink()
    assert fleet(*words).out == printed


@pytest.mark.process
def test_killed(fleet: Command) -> None:
    """Workers are killed at random moments: each outcome is whole, and the last run makes only the rest."""
    Path("rules.yaml").write_text(RULES)
    desk.record(Path("runs"), ["Paris"] * 60)
    made = planned(fleet, "runs", *CHECK)
    draw, endings = Random(7), []
    for _ in range(5):
        children = []
        for shard in (made.shard(1, 2), made.shard(2, 2) + made.shard(1, 2)):  # both may come to the same item
            moment = draw.uniform(0.005, 0.06)
            child = os.fork()
            if not child:
                signal.signal(signal.SIGPROF, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_PROF, moment)  # ends it as kill does: no code of ours runs
                work_all(shard, output="out", settings=made.settings)
                os._exit(0)
            children.append(child)
        endings += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert -signal.SIGPROF in endings
    ids = {item.id for item in made.items}
    before = {one.item: Path("out", key_of(one.item)).stat().st_mtime_ns for one in outcomes_in("out", ids)}
    assert len(before) > 0
    done = work_all(made.items, output="out", settings=made.settings)
    assert (done.known, done.verdicts.total()) == (len(before), 60 - len(before))
    assert {id_: Path("out", key_of(id_)).stat().st_mtime_ns for id_ in before} == before
    assert {one.item for one in outcomes_in("out", ids)} == ids


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", ["1", "3"])
def test_interrupted(fleet: Command, monkeypatch: pytest.MonkeyPatch, interruptible: None, concurrency: str) -> None:
    """Ctrl-C ends the work with 130, its outcomes are kept, and the next run does the rest."""
    del interruptible
    desk.record(Path("runs"), ["Paris", "Oslo"] + ["Rome"] * 18)
    items = plan(fleet, "runs", *REPLAY)
    monkeypatch.setattr(desk, "how", "is interrupted")
    ended = fleet("work", items, "--output", "out", "--concurrency", concurrency)
    assert ended.code == 130
    count = len(outcomes())
    assert count < 20 or concurrency == "3"  # threads may finish all before the main one gets the signal
    not_done = f"agenttape: {counted(20 - count, 'item')} not done; run it again to do only what is missing"
    assert (not_done in ended.err) == (count < 20)
    monkeypatch.setattr(desk, "how", "as recorded")
    assert Counter(fleet("work", items, "--output", "out", "--json").json["verdicts"]) == Counter(same=20 - count)


def test_clock_that_jumps(fleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set back while runs are recorded and worked on changes no duration and no outcome."""
    moments = iter(range(10**6, 0, -1))
    monkeypatch.setattr("time.time", lambda: float(next(moments)))
    Path("rules.yaml").write_text(RULES)
    desk.record(Path("runs"), ["Paris", "Oslo"])
    assert all(0 <= item.seconds < 60 for item in planned(fleet, "runs", *CHECK).items)
    assert fleet("work", "items.jsonl", "--output", "out").code == 0
    assert all(0 <= one.seconds < 60 for one in outcomes())


PAGE = Path(__file__).resolve().parents[3] / "docs" / "fleets.md"


def shown(name: str) -> str:
    """Return a file that the page shows."""
    found = re.search(
        rf'^```\w+ {{project="\w+" file="{name}"}}\n(.*?)^```', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1]


@pytest.mark.process
@pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is needed")
def test_dask(fleet: Command) -> None:
    """Two workers of a local cluster do all items of a plan, and one report has all outcomes."""
    desk.record(Path("runs"), ["Paris", "Oslo", "Rome refund", "Bern"])
    Path("rules.yaml").write_text("checks: 1\nevery:\n- never: refund\n")
    Path("items.jsonl").write_text(fleet("plan", "runs", "--experiment", "check", "--checks", "rules.yaml").out)
    Path("on_dask.py").write_text(shown("on_dask.py"))
    ended = subprocess.run([sys.executable, "on_dask.py"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    report = read_report(["results"])
    assert (report.verdicts()["same"], report.verdicts()["broken"], report.missing) == (3, 1, [])


def test_kubernetes_job(tmp_path: Path) -> None:
    """The indexed job is valid, short, and its pods do disjoint shards that are all of the plan."""
    text = shown("job.yaml")
    assert len(text.splitlines()) <= 25
    job = yaml.safe_load(text)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (job["apiVersion"], job["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
    assert set(job) == {"apiVersion", "kind", "metadata", "spec"}
    fields = {"completionMode", "completions", "parallelism", "backoffLimitPerIndex", "template"}
    assert set(spec) <= fields, "fields of JobSpec"
    assert set(pod) == {"restartPolicy", "containers"}
    assert pod["restartPolicy"] == "Never", "which backoffLimitPerIndex needs"
    (container,) = pod["containers"]
    assert set(container) <= {"name", "image", "command", "env"}
    assert all(isinstance(word, str) for word in container["command"])
    assert container["command"][container["command"].index("--shard") + 1] == "env"
    variables = {one["name"]: one["value"] for one in container["env"]}
    shards = [
        shard_named("env", {**variables, "JOB_COMPLETION_INDEX": str(index)}) for index in range(spec["completions"])
    ]
    assert shards == [(number, spec["completions"]) for number in range(1, spec["completions"] + 1)]
    if (validator := shutil.which("kubernetes-validate")) is not None:
        (tmp_path / "job.yaml").write_text(text)
        assert subprocess.run([validator, "--strict", tmp_path / "job.yaml"], check=False).returncode == 0
