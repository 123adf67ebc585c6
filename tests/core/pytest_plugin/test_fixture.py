"""The fixture shows what the run has asked and got so far, and its assertions fail with what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.pytest_plugin.fixture import TestCassette

from .conftest import Project


@boundary("tool")
def look_up(city: str, unit: str = "C") -> str:
    """Tell the weather in a city that exists."""
    if city == "Atlantis":
        raise LookupError("it has sunk")
    return f"{city}: 20 {unit}"


@boundary("chat")
def answer(question: str) -> str:
    """Agree."""
    return f"{question} Yes."


def run() -> None:
    """Call two tools and a model, and a tool that fails."""
    look_up("Paris")
    look_up("Rome", unit="F")
    with pytest.raises(LookupError):
        look_up("Atlantis")
    answer("Rain?")


@pytest.fixture(params=["all", "none"])
def tested(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestCassette]:
    """Give the cassette of a run that was recorded, and of one that was replayed."""
    path = tmp_path / "a.yaml"
    if request.param == "none":
        with use_cassette(path, mode="all"):
            run()
    with use_cassette(path, mode=request.param) as session:
        run()
        yield TestCassette(session, "test_x.py::test_y", "pytest test_x.py::test_y")


def test_what_it_shows(tested: TestCassette) -> None:
    """It has the interactions of this run in their order, and tool calls by name, arguments and result."""
    assert [item.kind for item in tested.interactions] == ["tool", "tool", "tool", "chat"]
    assert [(call.name, call.status, call.result) for call in tested.tool_calls] == [
        ("look_up", "returned", "Paris: 20 C"),
        ("look_up", "returned", "Rome: 20 F"),
        ("look_up", "raised", "it has sunk"),
    ]
    assert str(tested.tool_calls[1]) == "look_up(city='Rome', unit='F')"
    assert tested.final_output == "Rain? Yes."
    assert tested.path == tested.session.path


def test_what_holds(tested: TestCassette) -> None:
    """Assertions that hold say nothing."""
    tested.assert_tool_calls(["look_up"] * 3)
    tested.assert_tool_calls(["look_up"] * 3, any_order=True)
    tested.assert_tool_args("look_up", city="Paris")
    tested.assert_tool_args("look_up", call=1, unit="F")
    tested.assert_tool_args("look_up", call=-1, city="Atlantis")
    tested.assert_final_output("Rain? Yes.")
    tested.assert_final_output(contains="Yes")
    if tested.mode == "replay":
        tested.assert_all_replayed()


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (
            lambda it: it.assert_tool_calls(["look_up"]),
            r"tool calls .*\n\s+expected  \['look_up'\]\n\s+found     .*Rome",
        ),
        (lambda it: it.assert_tool_calls(["look_up", "x"], any_order=True), "tool calls"),
        (lambda it: it.assert_tool_args("look_up", city="Lyon"), r"'city': 'Lyon'.*\n.*'city': 'Paris'"),
        (lambda it: it.assert_tool_args("look_up", day=1), "<not given>"),
        (lambda it: it.assert_tool_args("look_up", call=3, city="Paris"), "call 3 of look_up"),
        (lambda it: it.assert_tool_args("fly"), r"call 0 of fly(?s:.*)look_up"),
        (lambda it: it.assert_final_output("No."), r"expected  No\.\n\s+found     Rain\? Yes\."),
        (lambda it: it.assert_final_output(contains="No"), "final output"),
        (lambda it: it.assert_nodes(["model"]), "nodes"),
    ],
)
def test_what_does_not(tested: TestCassette, check: Callable[[TestCassette], None], said: str) -> None:
    """Assertions that do not hold show what was expected and what was found."""
    with pytest.raises(AssertionError, match=said):
        check(tested)


def test_new_calls(tmp_path: Path) -> None:
    """A call that is executed is a new one."""
    with use_cassette(tmp_path / "a.yaml", mode="new_episodes") as session:
        look_up("Paris")
        with pytest.raises(AssertionError, match="tool look_up at look_up"):
            TestCassette(session, "x", "pytest x").assert_all_replayed()


def test_nothing_expected(tested: TestCassette) -> None:
    """An assertion that would hold for any output is refused."""
    with pytest.raises(ConfigurationError, match="expected a text"):
        tested.assert_final_output()


GOLDEN = """
import os

@pytest.mark.cassette
def test_it(cassette):
    ask("hi")
    cassette.assert_matches_snapshot({"answer": [1, os.environ.get("WHAT", "two")], "key": os.environ["KEY"]}, "plan")
"""


def test_snapshots(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is written by a test that records, redacted, and compared by one that replays."""
    key = "sk-proj-" + "a1B2" * 12
    monkeypatch.setenv("KEY", key)
    project.tests(GOLDEN)
    project.record()
    (path,) = (project.path / "cassettes").rglob("*.snapshot.yaml")
    assert path.name == "test_it.plan.snapshot.yaml"
    assert key not in path.read_text()
    project.run("--cassette-strict=orphans").assert_outcomes(passed=1)
    monkeypatch.setenv("WHAT", "three")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*the value differs from *test_it.plan.snapshot.yaml", "*-*two", "*+*three", "*--rerecord"]
    )
    path.unlink()
    project.run().stdout.fnmatch_lines(["*there's no snapshot*"])


def test_snapshots_of_a_failing_test(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that fails while it records writes no snapshot."""
    monkeypatch.setenv("KEY", "1")
    project.tests(f"{GOLDEN}    assert False\n")
    project.run("--cassette-mode=all").assert_outcomes(failed=1)
    assert project.cassettes() == []
