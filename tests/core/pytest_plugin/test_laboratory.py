"""`--cassette-lab` with experiments by their functions: flaky, why, shrink, change and bisect."""

from __future__ import annotations

import json
import subprocess

import pytest

import agenttape_core.experiments.strategies.flaky
import agenttape_core.experiments.strategies.shrink
import agenttape_core.experiments.strategies.why
import agenttape_core.pytest_plugin.experimenting  # noqa: F401 - runs in this process forget what only they have imported
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import change

from .conftest import LOADED, Project

pytestmark = pytest.mark.process

SUITE = """
@pytest.mark.cassette(mode="once")
def test_found():
    assert look_up(ask("where")).endswith("C")

@pytest.mark.cassette(mode="once")
def test_lost():
    from pathlib import Path
    cities = [look_up(city) for city in ("Rome", "Oslo")]
    assert not (Path(__file__).with_name("broken").exists() and cities), "no city"

def test_none():
    pass
"""


@pytest.fixture
def recorded(project: Project) -> Project:
    """A project with recorded tests, of which one fails now."""
    project.tests(SUITE)
    project.run("-q").assert_outcomes(passed=3)
    project.go_offline()
    (project.path / "broken").touch()
    return project


def test_in_one_run(recorded: Project) -> None:
    """Each test that passes is looked at, and each that fails is shrunk; the report has all results."""
    ended = recorded.run(
        "-q",
        "--cassette-lab=flaky:samples=2,live=look_up",
        "--cassette-lab=why:text=where! 1",
        "--cassette-lab=shrink",
        "--cassette-report=lab.json",
        "--cassette-report=lab.xml",
    )
    ended.assert_outcomes(passed=2, failed=1)
    shown = ended.stdout.str()
    assert "tool look_up: none of 2 failed" in shown
    assert "← 1 call ask" in shown
    assert "test_lost.minimal.yaml" in shown
    found = json.loads((recorded.path / "lab.json").read_text())["results"]
    assert [(one["name"], one["test"].partition("::")[2]) for one in found] == [
        ("flaky", "test_found"),
        ("why", "test_found"),
        ("shrink", "test_lost"),
    ]
    assert (recorded.path / "lab.xml").exists()


@pytest.mark.usefixtures("forked_tests")
@pytest.mark.night
def test_revisions(recorded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that replays no more under an edit is compared with its base, and its first bad commit is found."""
    who = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(recorded.path)]

    def git(*words: str) -> None:
        subprocess.run([*who, *words], check=True, capture_output=True)

    monkeypatch.setenv("PYTEST_PLUGINS", ",".join(LOADED[:2]))  # of the processes that replay revisions
    git("init", "-q", "-b", "main")
    git("add", "agent.py", "test_it.py", "pytest.ini")
    git("commit", "-qm", "One")
    module = recorded.path / "test_it.py"
    module.write_text(module.read_text().replace('"Oslo"', '"Bergen"'))
    git("commit", "-qam", "Two")
    ended = recorded.run("-q", "--cassette-lab=change:base=HEAD~1,to=HEAD", "--cassette-lab=bisect:HEAD~1")
    ended.assert_outcomes(passed=2, failed=1)
    shown = ended.stdout.str()
    assert "HEAD against HEAD~1: 1 recording, 1 SAME" in shown
    assert "HEAD against HEAD~1: 1 recording, 1 CHANGED" in shown, "a test that fails by the edit is the case for it"
    assert "is the first that does not replay" in shown
    monkeypatch.chdir(recorded.path)
    found = change("test_it.py", base="HEAD~1", to="HEAD")
    assert [(one.target, one.verdict) for one in found.cases] == [
        ("test_it.py::test_found", "SAME"),
        ("test_it.py::test_lost", "CHANGED"),
    ]
    with pytest.raises(ConfigurationError, match=r"agent\.py has no test with a cassette"):
        change("agent.py", base="HEAD~1")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("why:max_usd=1", "why takes no max_usd: it calls no model"),
        ("faults:jobs=2", "pytest runs the replays of a test one after another"),
        ("flaky:samples=2,jobs=2", "run several tests at a time with pytest-xdist:  pytest -n N"),
        ("flaky:runs=3", "flaky takes no runs: how often it replays follows from"),
        ("flaky:samples=many", "expected a number, found 'many'"),
        ("change", "name the revision: --cassette-lab=change:base=main"),
    ],
)
def test_refused(project: Project, given: str, why: str) -> None:
    """An option without a meaning is refused before the run, with the reason."""
    project.tests(SUITE)
    ended = project.run("-q", f"--cassette-lab={given}")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    ended.stderr.fnmatch_lines([f"*{why}*"])


def test_nothing_to_look_at(project: Project) -> None:
    """An experiment that no test takes part in fails the run."""
    project.tests("def test_none():\n    pass\n")
    ended = project.run("-q", "--cassette-lab=flaky")
    assert ended.ret == pytest.ExitCode.TESTS_FAILED
    ended.stdout.fnmatch_lines(["*--cassette-lab=flaky looked at no test*"])
