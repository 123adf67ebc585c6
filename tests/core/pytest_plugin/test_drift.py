"""`--cassette-drift`: a suite is compared with the real services, and nothing in the tree changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import agenttape_core.pytest_plugin.verifying  # noqa: F401 - runs in this process forget what only they have imported
from agenttape_core.cli.app import run

from .conftest import Project

SUITE = """
from pathlib import Path

@pytest.mark.cassette
def test_city(cassette):
    city = Path("city").read_text()
    ask(city)
    cassette.assert_matches_golden(look_up(city))
"""


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files of a project that git does not ignore, with what they hold."""
    hidden = {".agenttape", ".pytest_cache", "__pycache__"}
    files = (path for path in folder.rglob("*") if path.is_file() and hidden.isdisjoint(path.parts))
    return {str(path): path.read_bytes() for path in files}


@pytest.fixture
def recorded(project: Project) -> Project:
    """A project with a recorded test."""
    (project.path / "city").write_text("Rome", encoding="utf-8")
    project.tests(SUITE)
    project.record()
    return project


def test_unchanged_services(recorded: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing has changed, the run passes, no file changes, and `stale` knows when that was."""
    before = tree(recorded.path)
    assert run(["stale", "--check", "verified", "cassettes"]) == 1
    result = recorded.run("--cassette-drift")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["1 cassette verified by a run for real"])
    assert tree(recorded.path) == before
    verified = json.loads((recorded.path / ".agenttape" / "verified.json").read_text(encoding="utf-8"))
    assert list(verified) == ["cassettes/test_it/test_city.yaml"]
    assert run(["stale", "--check", "verified", "--max-age", "30d", "cassettes"]) == 0
    whole = Path("cassettes/test_it/test_city.yaml").read_text(encoding="utf-8")
    Path("cassettes/derived.yaml").write_text(
        whole.replace("\nvolatile:", "\nderived_from: test_it/test_city\nvolatile:")
    )
    assert run(["stale", "--check", "verified", "cassettes"]) == 0  # no test repeats a sample of a candidate
    Path("cassettes/derived.yaml").unlink()
    assert run(["stale", "--check", "verified", "--max-age", "0h", "cassettes"]) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ('return f"{city}: twenty {unit}"', "*the value differs from*test_city.golden.yaml*"),
        ('raise RuntimeError("gone")', "*the test fails when it is run for real: RuntimeError: gone*"),
        ('return ask(city) and f"{city}: 20 {unit}"', "*its calls part: the end → call ask*"),
    ],
)
def test_changed_services(changed: str, said: str, recorded: Project) -> None:
    """Where something has changed, the run fails and says what, and no file changes."""
    agent = recorded.path / "agent.py"
    text = agent.read_text(encoding="utf-8")
    agent.write_text(text.replace('return f"{city}: 20 {unit}"', changed), encoding="utf-8")
    before = tree(recorded.path)
    result = recorded.run("--cassette-drift")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([said])
    result.stdout.fnmatch_lines(["0 cassettes verified by a run for real"])
    assert tree(recorded.path) == before
    assert not (recorded.path / ".agenttape" / "verified.json").exists()


NOTES = """
from agent import look_up
from agenttape_core import use_cassette

def keep(city):
    try:
        with use_cassette("notes", mode="once"):
            look_up(city, unit="note")
    except BaseException:
        pass
"""


def test_a_part_that_caught_its_failure(recorded: Project) -> None:
    """A session that the program opened itself only replays, and its failure is told though the program caught it."""
    recorded.pytester.makepyfile(notes=NOTES)
    test = recorded.path / "test_it.py"
    test.write_text(test.read_text(encoding="utf-8").replace("ask(city)", 'ask(city), __import__("notes").keep(city)'))
    recorded.record()
    (recorded.path / "city").write_text("Roma", encoding="utf-8")
    recorded.run("--rerecord").assert_outcomes(passed=1)
    before = tree(recorded.path)
    result = recorded.run("--cassette-drift")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*cassettes/notes.yaml: no recording for tool look_up*"])
    assert tree(recorded.path) == before
