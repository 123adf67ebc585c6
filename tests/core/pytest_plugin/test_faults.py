"""`--cassette-lab=faults`: each recorded call of each test fails once in each way; a matrix shows what came of it."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

import agenttape_core.pytest_plugin.experimenting
import agenttape_core.tools.reporting.forms  # noqa: F401 - runs in this process forget what only they have imported

from .conftest import Project

pytestmark = pytest.mark.process

SUITE = """
from agenttape_core import use_cassette

def patient(call, *args):
    for _ in range(3):
        try:
            return call(*args)
        except (ConnectionError, TimeoutError):
            pass
    return call(*args)

@pytest.mark.cassette
def test_careful():
    assert patient(look_up, patient(ask, "where")).endswith("C")

@pytest.mark.cassette
def test_blind(request, tmp_path):
    try:
        found = look_up("Rome")
    except Exception:
        found = "nothing"
    assert found is not None

def test_own_session():
    with use_cassette("own", mode="once"):
        assert ask("why") == "why! 1" or True
        assert look_up("Oslo") != ""
"""


def matrices(project: Project, *args: str) -> dict[str, Any]:
    """Run the tests with faults, and return the matrix of each test: the verdicts by call and fault."""
    project.run(*args, "--cassette-report=faults.json")
    written = json.loads((project.path / "faults.json").read_text(encoding="utf-8"))["tests"]
    return {
        one["test"].partition("::")[2]: one["excluded"]
        or {(cell["target"]["number"], cell["fault"]): cell["verdict"] for cell in one["cells"]}
        for one in written
    }


@pytest.fixture
def recorded(project: Project) -> Project:
    """A project with recorded tests, whose services are gone."""
    project.tests(SUITE)
    project.record()
    project.go_offline()
    return project


def test_matrix(recorded: Project) -> None:
    """Each call fails in each way; a retry recovers, a swallowed error is silent; sessions of the test's own count."""
    before = {path: path.read_bytes() for path in recorded.path.rglob("*.yaml")}
    found = matrices(recorded, "--cassette-lab=faults:timeout,timeout:always,tool_error,empty")
    assert found["test_careful"] == {
        (1, "timeout"): "recovered",
        (1, "timeout:always"): "raised",
        (2, "timeout"): "recovered",
        (2, "timeout:always"): "raised",
        (2, "tool_error"): "raised",
        (2, "empty"): "assertion",
    }
    assert set(found["test_blind"].values()) == {"silent"}
    assert found["test_own_session"][2, "empty"] == "assertion"
    assert found["test_own_session"][1, "timeout"] == "raised"
    assert {path: path.read_bytes() for path in recorded.path.rglob("*.yaml")} == before
    some = matrices(recorded, "--cassette-lab=faults:kinds=timeout,timeout:always,call=look_up")
    assert {number for number, _ in some["test_careful"]} == {2}, "the selector of calls holds"


def test_text(recorded: Project) -> None:
    """The summary shows the matrix, with the findings in words; the outcome of the tests is as without faults."""
    result = recorded.run("--cassette-lab=faults:connection_reset,empty", "-k", "blind or careful")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*= faults =*",
            "test_it.py::test_careful",
            "*connection_reset  empty",
            "   1  call ask at ask*ok*.",
            "   2  tool look_up at look_up*ok*assert",
            "test_it.py::test_blind",
            "   1  tool look_up at look_up*SILENT*SILENT",
            "  connection_reset of 1: ended well with another answer",
            "5 faults: 2 recovered, 2 silent, 1 assertion",
        ]
    )


def test_excluded(recorded: Project) -> None:
    """A test that fails without a fault is left out and named, at once or when it is run again."""
    recorded.tests(
        SUITE
        + """
seen = []

@pytest.mark.cassette("test_it/test_blind")
def test_broken():
    look_up("Rome")
    assert False

@pytest.mark.cassette("test_it/test_blind")
def test_once_only():
    look_up("Rome")
    seen.append(1)
    assert len(seen) == 1
"""
    )
    found = matrices(recorded, "--cassette-lab=faults:timeout")
    assert found["test_broken"] == "it fails without a fault"
    assert found["test_once_only"].startswith("it fails when it is run again without a fault: AssertionError")


def test_marker(recorded: Project) -> None:
    """A test with the marker is tried in each run, and fails for what the marker does not allow."""
    recorded.tests(
        """
@pytest.mark.cassette("test_it/test_blind")
@pytest.mark.faults("timeout")
def test_silent():
    try:
        look_up("Rome")
    except TimeoutError:
        pass

@pytest.mark.cassette("test_it/test_blind")
@pytest.mark.faults("timeout", "tool_error", allow=["raised"])
def test_allowed():
    look_up("Rome")

@pytest.mark.cassette("test_it/test_blind")
@pytest.mark.faults("timeout", allow=[])
def test_not_allowed():
    look_up("Rome")
"""
    )
    result = recorded.run()
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(
        [
            "1 of 1 faults come to what is not allowed",
            "  timeout of 1  tool look_up at look_up: silent, ended well with another answer",
            "1 of 1 faults come to what is not allowed",
            "  timeout of 1  tool look_up at look_up: raised, TimeoutError: Request timed out.",
        ]
    )


def test_controls_are_no_findings(recorded: Project) -> None:
    """The harmless words beside an injected instruction are shown, and are no finding."""
    recorded.run("--cassette-lab=faults:inject", "-k", "blind", "--cassette-report=faults.xml")
    xml = (recorded.path / "faults.xml").read_text(encoding="utf-8")
    assert (xml.count("<testcase"), xml.count("<failure")) == (2, 1)
    found = matrices(recorded, "--cassette-lab=faults:inject", "-k", "blind")
    assert found == {"test_blind": {(1, "inject"): "silent", (1, "note"): "silent"}}


def test_reports(recorded: Project) -> None:
    """The reporters of checks write the matrix: a case for each fault, a failure for each silent one."""
    recorded.run("--cassette-lab=faults:timeout,empty", "-k", "blind", "--cassette-report=out/faults.xml")
    xml = (recorded.path / "out" / "faults.xml").read_text(encoding="utf-8")
    assert (xml.count("<testcase"), xml.count("<failure")) == (2, 2)
    assert "timeout: 1  tool look_up at look_up" in xml


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--cassette-lab=faults:timout", "there is no kind 'timout'"),
        ("--cassette-lab=faults:,", "no kind is named"),
        ("--cassette-report=x.pdf", "the suffix is the form, and this one is not known"),
    ],
)
def test_refused(project: Project, option: str, message: str) -> None:
    """A kind that there is not, and a form that nobody knows, are refused before anything runs."""
    project.tests("def test_nothing(): pass")
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])


def test_recording_comes_first(project: Project) -> None:
    """Nothing fails while tests are recorded, nor does a test without a cassette."""
    project.tests(SUITE)
    assert matrices(project, "--cassette-lab=faults:timeout", "--cassette-mode=all") == {}
    project.tests("def test_nothing(): pass")
    assert matrices(project, "--cassette-lab=faults:timeout") == {}


@pytest.mark.parametrize(
    ("experiment", "number", "line"),
    [("faults:empty", 5, "*interrupted: 1 fault not tried"), ("orders", 6, "*the same in 1 order of *interrupted*")],
)
def test_interrupted(
    project: Project, capsys: pytest.CaptureFixture[str], experiment: str, number: int, line: str
) -> None:
    """Ctrl-C ends the run, whose summary and report hold what was found until then."""
    project.tests(
        """
import asyncio
from agenttape_core import boundary

@boundary("tool")
async def look(place):
    return place

async def both():
    return await asyncio.gather(look("Rome"), look("Oslo"))

runs = []

@pytest.mark.cassette
def test_it():
    runs.append(1)
    asyncio.run(both())
    if len(runs) == NUMBER:
        raise KeyboardInterrupt

@pytest.mark.cassette("test_it/test_it")
def test_not_begun():
    raise AssertionError
""".replace("NUMBER", str(number))
    )
    project.run("--cassette-mode=once", "-k", "test_it and not begun")
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        project.run(f"--cassette-lab={experiment}", "--cassette-report=found.json")
    pytest.LineMatcher(capsys.readouterr().out.splitlines()).fnmatch_lines([line, "*1 passed*"])
    if experiment != "orders":
        (matrix,) = json.loads((project.path / "found.json").read_text(encoding="utf-8"))["tests"]
        assert (matrix["untried"], len(matrix["cells"])) == (1, 1)


def test_a_cassette_elsewhere(project: Project) -> None:
    """Faults and orders need a local cassette, as the commands do: one behind a URL is refused with the remedy."""
    import_module("fsspec.implementations.memory")  # what a run has imported alone is forgotten
    project.tests('@pytest.mark.cassette("memory://faults/a.yaml")\ndef test_a():\n    assert ask("where")')
    project.record()
    for name in ("faults", "orders", "why"):
        said = project.run(f"--cassette-lab={name}").stdout.str()
        assert f"test_a: {name} shows nothing: memory://faults/a.yaml isn't a local file" in said
        assert "download it" in said
    tried = project.run("--cassette-lab=model:openai:new")
    assert tried.ret == 1
    assert "memory://faults/a.yaml isn't a local file" in tried.stdout.str()
