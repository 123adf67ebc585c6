"""Samples of models, in parallel and within a limit; tests and commands as programs."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent
from threading import Barrier

import pytest

from agenttape_core import boundary, use_cassette

from . import desk
from .conftest import APP, CITIES, Command, outcomes, plan

MODEL = ("--experiment", "model", "--model", "own", "--app", APP, "--revision", "r1")


def test_samples(fleet: Command, runs: str) -> None:
    """Each sample is an item: it passes, with the calls of its own, and nothing of it is kept."""
    items = plan(fleet, runs, *MODEL, "--samples", "8")
    assert fleet("work", items, "--output", "out", "--json").json["verdicts"] == {"same": 8}
    found = outcomes()
    assert {(one.sample, one.candidate, one.passed) for one in found} == {(1, "own", True), (2, "own", True)}
    assert [one.calls for one in found] == [2, 2, 2, 2, 3, 3, 2, 2]
    assert not [
        path for path in Path().rglob("*") if path.suffix == ".yaml" and path.parent not in {Path(runs), Path()}
    ]


@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("raises", "not evidence: the sample made no call"),
        ("asks otherwise", "the program doesn't replay the recording"),
    ],
)
def test_samples_that_are_no_evidence(
    fleet: Command, runs: str, monkeypatch: pytest.MonkeyPatch, how: str, where: str
) -> None:
    """A program that doesn't replay its recording is not sampled, and a sample without a call counts for no model."""
    items = plan(fleet, runs, *MODEL)
    monkeypatch.setattr(desk, "how", how)
    assert fleet("work", items, "--output", "out").code == 0
    assert {(one.verdict, one.passed, one.where) for one in outcomes()} == {("failed", None, where)}


def test_samples_by_rules(fleet: Command, runs: str) -> None:
    """A sample that breaks a rule has not passed."""
    items = plan(fleet, runs, *MODEL, "--checks", "rules.yaml")
    assert fleet("work", items, "--output", "out").code == 0
    passed = ("same", True)
    assert [(one.verdict, one.passed) for one in outcomes()] == [passed, passed, ("broken", False), passed]


TOGETHER = Barrier(4, timeout=60)


@boundary("chat")
def slow(prompt: str) -> str:
    """Answer when four calls wait at the same time, while it's sampled."""
    if sampled:
        TOGETHER.wait()
    return prompt


sampled = False


begun: list[str] = []


def talk(city: str) -> str:
    """Ask about a city."""
    begun.append(city)
    return slow(city)


def test_one_replay_for_all_samples(fleet: Command) -> None:
    """A recording is replayed once before its samples are taken in a process, however many they are."""
    with use_cassette("runs/one.jsonl", mode="record") as cassette:
        cassette.note_input({"city": "Oslo"})
        talk("Oslo")
    words = ("--experiment", "model", "--model", "own", "--app", f"{__name__}:talk", "--revision", "r1")
    items = plan(fleet, "runs", *words, "--samples", "3")
    begun.clear()
    assert fleet("work", items, "--output", "out", "--json").json["verdicts"] == {"same": 3}
    assert len(begun) == 1 + 3


def test_in_parallel(fleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a concurrency of 4, four models are called at the same time."""
    for city in CITIES * 2:
        with use_cassette(Path("runs", f"{city}-{len(list(Path().glob('runs/*')))}.yaml"), mode="record") as cassette:
            cassette.note_input({"city": city})
            talk(city)
    items = plan(fleet, "runs", *MODEL[:4], "--app", f"{__name__}:talk", "--revision", "r1")
    monkeypatch.setattr(f"{__name__}.sampled", True)
    ended = fleet("work", items, "--output", "out", "--concurrency", "4", "--json")
    assert ended.json["verdicts"] == {"same": 8}


AGENT = dedent("""
    from agenttape_core import boundary

    @boundary("chat")
    def note(text):
        return "noted " + text

    def answer():
        return note("It costs 8.")
""")


@pytest.mark.process
def test_commands(fleet: Command, python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command is replayed in a process for each recording, and its new request is found."""
    monkeypatch.setenv("PATH", f"{python}{os.pathsep}{os.environ['PATH']}")
    namespace: dict[str, object] = {}
    exec(AGENT, namespace)
    with use_cassette("runs/one.yaml", mode="record"):
        namespace["answer"]()  # type: ignore[operator]
    words = ("runs", "--experiment", "replay", "--program", "-- python desk_script.py", "--revision")
    Path("desk_script.py").write_text(AGENT + "answer()\n")
    assert fleet("work", plan(fleet, *words, "r1"), "--output", "out").code == 0
    Path("desk_script.py").write_text(AGENT + "note('another')\n")
    assert fleet("work", plan(fleet, *words, "r2"), "--output", "out").code == 0
    assert sorted(one.verdict for one in outcomes()) == ["changed", "same"]
    limited = fleet("work", plan(fleet, "runs", *MODEL[:4], *words[3:], "r1"), "--output", "out", "--max-usd", "1")
    assert limited.code == 2


@pytest.mark.slow
def test_tests(fleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test is replayed with each recording."""
    monkeypatch.setattr("sys.path", [str(Path.cwd()), *__import__("sys").path])
    Path("test_desk_of_fleet.py").write_text(f"{AGENT}\ndef test_answer():\n    assert 'noted' in answer()\n")
    Path("pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    namespace: dict[str, object] = {}
    exec(AGENT, namespace)
    for name in ("one", "two"):
        with use_cassette(f"runs/{name}.yaml", mode="record"):
            namespace["answer"]()  # type: ignore[operator]
    words = ("--experiment", "replay", "--program", "test_desk_of_fleet.py::test_answer", "--revision", "r1")
    assert fleet("work", plan(fleet, "runs", *words), "--output", "out", "--concurrency", "2").code == 0
    assert [one.verdict for one in outcomes()] == ["same", "same"]
