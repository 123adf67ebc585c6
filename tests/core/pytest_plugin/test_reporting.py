"""The plugin writes the reports of the gate: on tests with a cassette, and what checks said in them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from .conftest import Project

pytestmark = pytest.mark.process

TESTS = """
from agenttape_core.checks import called, never

@pytest.mark.cassette
def test_good(cassette):
    ask("a")
    look_up("Paris")
    cassette.check(called("look_up"))

@pytest.mark.cassette
def test_bad(cassette):
    look_up("Oslo")
    cassette.check(called("look_up"), never("look_up"))

@pytest.mark.cassette
def test_wrong():
    assert ask("b") == "c"

def test_without():
    assert not ask("b")
"""
REPORTS = ("out/report.md", "report.sarif", "report.trx", "report.xml")


@pytest.fixture
def reported(project: Project) -> Project:
    """A project with four recorded tests, of which one passes."""
    project.tests(TESTS.replace('never("look_up")', 'never("x")').replace('== "c"', "").replace("not ask", "ask"))
    project.record()
    project.tests(TESTS)
    return project


@pytest.mark.usefixtures("forked_tests")
@pytest.mark.parametrize("workers", [[], pytest.param(["-n2"], marks=pytest.mark.night)], ids=["here", "xdist"])
def test_files(reported: Project, workers: list[str]) -> None:
    """Each form names the tests with a cassette and the finding of a check at its line, also with workers."""
    result = reported.run(*workers, *(f"--cassette-report={name}" for name in REPORTS))
    result.assert_outcomes(passed=1, failed=3)
    text = (reported.path / "out/report.md").read_text()
    assert text.startswith("### AgentTape: 3 runs, 6 checks: 2 runs failed\n")
    assert "| `test_it.py::test_bad` | `never` | 3 |" in text
    assert "test_without" not in text
    assert "replayed, 4 calls" in text
    found = json.loads((reported.path / "report.sarif").read_text())["runs"][0]["results"]
    places = {
        one["ruleId"]: (at["artifactLocation"]["uri"], at["region"]["startLine"])
        for one in found
        for at in [one["locations"][0]["physicalLocation"]]
    }
    line = (reported.path / "test_it.py").read_text().splitlines().index('    assert ask("b") == "c"') + 1
    assert places["test"] == ("test_it.py", line)
    cassette, at = places["never"]
    assert "Oslo" in "".join((reported.path / cassette).read_text().splitlines()[at - 1 : at + 10])
    assert len(ET.parse(reported.path / "report.xml").findall(".//failure")) == 2
    assert ET.parse(reported.path / "report.trx").getroot() is not None


def test_on_github(reported: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In GitHub Actions, lines are annotated and the summary of the job grows without any option."""
    reported.run("test_it.py::test_good").stdout.no_fnmatch_line("::*")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = reported.run()
    result.stdout.fnmatch_lines(["::error file=cassettes/test_it/test_bad.yaml,line=*,title=*never::*"])
    assert summary.read_text().startswith("before\n### AgentTape: 3 runs, 6 checks: 2 runs failed\n")


def test_bad_names(project: Project) -> None:
    """A suffix that is no form ends the run before it begins; a file that cannot be written fails it at the end."""
    project.tests("@pytest.mark.cassette\ndef test_it():\n    ask('a')")
    project.record()
    result = project.run("--cassette-report=a.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cassette-report=a.html: the suffix is the form*", "*.md, .sarif, .trx, .xml"])
    (project.path / "a.md").mkdir()
    result = project.run("--cassette-report=a.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*reports that are missing*", "a.md cannot be written: *"])


def test_no_test_with_a_cassette(project: Project) -> None:
    """A run without cassettes has an empty report."""
    project.tests("def test_it():\n    pass")
    project.run("--cassette-report=a.md")
    assert (project.path / "a.md").read_text().startswith("### AgentTape: 0 runs, 0 checks: all passed")
