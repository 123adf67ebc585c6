"""The command in this process, in a folder of its own, with the desk as its program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core.cli.app import run
from agenttape_core.fleet.items import Plan, read_plan
from agenttape_core.fleet.outcomes import Outcome, read_outcome

from ...kit.ended import Ended
from . import desk

APP = f"{desk.__name__}:answer"
CITIES = ["Paris", "Oslo", "Rome refund", "Bern"]
RULES = "checks: 1\nevery:\n- never: refund\n- at_most: {calls: 6}\n"
CHECK = ("--experiment", "check", "--checks", "rules.yaml")
"""The options of a plan by which each run is checked by the rules."""
REPLAY = ("--experiment", "replay", "--app", APP, "--revision", "r1")


Command = Callable[..., Ended]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `agenttape fleet` in a folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(desk, "how", "as recorded")

    def run_it(*words: object) -> Ended:
        capsys.readouterr()
        code = run(["fleet", *map(str, words)])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run_it


def plan(fleet: Command, *words: str, file: str = "items.jsonl") -> str:
    """Write a plan, and return its name."""
    ended = fleet("plan", *words)
    assert ended.code == 0, ended.err
    Path(file).write_text(ended.out)
    return file


def planned(fleet: Command, *words: str) -> Plan:
    """Return a plan that was written and read again."""
    return read_plan(Path(plan(fleet, *words)).read_text(), "items")


def outcomes(folder: str = "out") -> list[Outcome]:
    """Return the outcomes in a store, by recording."""
    found = [read_outcome(file.read_bytes(), file.name, file.stem) for file in Path(folder).glob("results/*/*.json")]
    return sorted(found, key=lambda one: one.cassette)


@pytest.fixture
def runs(fleet: Command) -> str:
    """Record a run for each city, and write the rules; returns the folder."""
    del fleet
    Path("rules.yaml").write_text(RULES)
    return str(desk.record("runs", CITIES))
