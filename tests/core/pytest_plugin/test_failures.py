"""A test with a cassette fails for what its session finds, and shows that as a person would tell it."""

from __future__ import annotations

import json

import pytest

from .conftest import Project

pytestmark = pytest.mark.process

ASKS = """
@pytest.mark.cassette
def test_it():
    assert ask("hi")
"""
ASKS_OTHERWISE = ASKS.replace("hi", "ho")

IN_A_GROUP = """import asyncio
    async def inside():
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(ask, 'ho'))
    asyncio.run(inside())"""


def test_a_miss_is_a_diff(project: Project) -> None:
    """A miss shows what differs and what to do about it, at the line of the test, and no line of ours."""
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_it.py:7: in test_it",
            '    assert ask("ho")',
            "*no recording for call ask*",
            "E     cassette  cassettes/test_it/test_it.yaml (1 interaction, mode none)",
            "*recorded  *hi*",
            "*asked     *ho*",
            "*pytest test_it.py::test_it --cassette-mode=all",
            "missed    cassettes/test_it/test_it.yaml  1 missed, 1 unused",
        ]
    )
    result.stdout.no_fnmatch_line("*session.py*")


def test_the_command_is_for_where_pytest_was_started(
    project: Project, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a miss tells to type works in the directory in which pytest was started, which may be another one."""
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE)
    (project.path / "deep").mkdir()
    monkeypatch.chdir(project.path / "deep")
    result = pytester.runpytest_inprocess("..")
    result.stdout.fnmatch_lines(["*pytest ../test_it.py::test_it --cassette-mode=all"])


def test_a_style_that_was_asked_for_is_kept(project: Project) -> None:
    """With a style of tracebacks on the command line, nothing is cut."""
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE)
    project.run("--tb=long").stdout.fnmatch_lines(["*session.py:*"])


@pytest.mark.parametrize(
    "body",
    [
        "try:\n        ask('ho')\n    except BaseException:\n        pass",
        IN_A_GROUP,
    ],
    ids=["eaten", "in a group"],
)
def test_a_miss_that_is_hidden(project: Project, body: str) -> None:
    """A miss that the code eats, or that comes in a group, fails the test with the same words."""
    project.tests(ASKS)
    project.record()
    project.tests(f"@pytest.mark.cassette\ndef test_it():\n    {body}\n")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no recording for call ask*", "*asked     *ho*"])


def test_unused_recordings_fail_the_test(project: Project) -> None:
    """A test that no longer asks for all that was recorded fails itself, not its teardown."""
    project.tests(ASKS)
    project.record()
    project.tests("@pytest.mark.cassette\ndef test_it():\n    pass\n")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 of 1 recorded interactions were never asked for", "unused *1 unused"])


def test_a_failing_recording_replaces_nothing(project: Project) -> None:
    """A test that fails while it records leaves the good cassette as it was, and says so."""
    project.tests(ASKS)
    project.record()
    (path,) = (project.path / "cassettes").rglob("*.yaml")
    good = path.read_bytes()
    project.tests(f"{ASKS_OTHERWISE}    assert False\n")
    result = project.run("--rerecord")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*was left as it was*", "discarded *1 executed"])
    assert path.read_bytes() == good


def test_a_failing_fixture(project: Project) -> None:
    """A fixture that fails after it has asked something leaves no cassette and no open session behind."""
    project.tests("""
@pytest.fixture
def broken():
    ask("hi")
    raise ValueError("broken")

@pytest.mark.cassette
def test_it(broken):
    pass

@pytest.mark.cassette
def test_other():
    assert ask("hi")
""")
    result = project.run("--cassette-mode=once")
    result.assert_outcomes(errors=1, passed=1)
    assert project.cassettes() == ["test_it/test_other.yaml"]


def test_artifacts_of_a_replay(project: Project) -> None:
    """Of a failing replay, what it asked and got and the cassette are kept on request; secrets are not."""
    key = "sk-proj-" + "a1B2" * 12
    project.tests(ASKS)
    project.record()
    project.tests(ASKS_OTHERWISE.replace("ho", f"ho {key}"))
    project.run("--cassette-artifacts=kept").assert_outcomes(failed=1)
    (folder,) = (project.path / "kept").iterdir()
    told = json.loads((folder / "run.json").read_text())
    assert (told["test"], told["mode"], len(told["missed"]), len(told["unused"])) == (
        "test_it.py::test_it",
        "none",
        1,
        1,
    )
    assert "no recording for call ask" in told["failure"]
    assert (folder / "test_it.yaml").read_bytes() == (project.path / "cassettes/test_it/test_it.yaml").read_bytes()
    assert all(key not in path.read_text() for path in folder.iterdir())


def test_artifacts_of_a_recording(project: Project) -> None:
    """Of a failing recording, what it recorded is kept as a cassette."""
    project.tests(f"{ASKS}    assert False\n")
    project.run("--cassette-mode=all", "--cassette-artifacts=kept").assert_outcomes(failed=1)
    (recorded,) = (project.path / "kept").rglob("recorded.yaml")
    assert "question: hi" in recorded.read_text()
    assert project.cassettes() == []
