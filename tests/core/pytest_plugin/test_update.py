"""`--cassette-dry-run` and `--rerecord=changed`: what has changed is named first, and only that is executed."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import cast

import pytest

from agenttape_core.pytest_plugin.planning import keep_to, read_plans

from .conftest import Project

pytestmark = pytest.mark.process

TESTS = """
@pytest.mark.cassette
def test_a():
    first = ask(WORD)
    look_up("Paris")
    assert ask("then").startswith("then")
    assert first.startswith(WORD)

@pytest.mark.cassette
def test_b():
    assert ask("b")
"""


def edit(project: Project, word: str) -> None:
    """Let the first test ask for something else."""
    project.tests(f"WORD = {word!r}\n{TESTS}")


@pytest.fixture
def changed(project: Project) -> Project:
    """A project with two recorded tests, of which one was edited since."""
    edit(project, "one")
    project.record()
    edit(project, "two")
    return project


def files(project: Project) -> dict[str, bytes]:
    """Return the cassettes."""
    return {name: (project.path / "cassettes" / name).read_bytes() for name in project.cassettes()}


def test_a_plan(changed: Project) -> None:
    """A plan names what has changed and skips a test that old answers make fail; nothing is executed or written."""
    before = files(changed)
    changed.go_offline()
    result = changed.run("--cassette-dry-run", "--cassette-report=plan.json")
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "cassettes/test_it/test_a.yaml: 1 of 3 calls changed; up to 2 more depend on it",
            "   1  call ask at ask",
            "1 of 2 cassettes needs updating (1 of 4 calls *):  pytest --rerecord=changed",
        ]
    )
    plans = json.loads((changed.path / "plan.json").read_text())["tests"]
    assert {test: len(plan["changed"]) for test, plan in plans.items()} == {
        "test_it.py::test_a": 1,
        "test_it.py::test_b": 0,
    }
    assert files(changed) == before


def test_dirty(changed: Project) -> None:
    """Only what has changed is executed; the other test's cassette stays, and a plain run is green."""
    before = files(changed)
    result = changed.run("--rerecord=changed")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["updated   cassettes/test_it/test_a.yaml  2 replayed, 1 recorded, 1 dropped"])
    assert [name for name, content in files(changed).items() if content != before[name]] == ["test_it/test_a.yaml"]
    changed.go_offline()
    changed.run().assert_outcomes(passed=2)
    clean = changed.run("--cassette-dry-run")
    clean.assert_outcomes(passed=2)
    assert clean.ret == 0


def test_a_missing_cassette_is_new(project: Project) -> None:
    """A test without a cassette is planned: all of it is new."""
    edit(project, "one")
    result = project.run("--cassette-dry-run", "-k", "test_b")
    result.stdout.fnmatch_lines(["cassettes/test_it/test_b.yaml: 0 of 0 calls changed, 1 new, and what follows*"])
    assert not Path(project.path / "cassettes").exists()


def test_sessions_of_their_own(project: Project) -> None:
    """Cassettes that tests and fixtures open themselves are planned and updated, too; one of two tests once."""
    own = dedent("""
        from agenttape_core import use_cassette

        @pytest.fixture
        def warm():
            with use_cassette("warm"):
                yield ask(WORD)

        def test_a(warm):
            assert warm

        @use_cassette("both")
        def test_b():
            assert ask("same") and ask(WORD).startswith(WORD)

        @use_cassette("both")
        def test_c():
            assert ask("same") and ask(WORD)

        @pytest.mark.cassette
        def test_d():
            with use_cassette("named", mode="once"):
                ask("d")

        def test_e():
            pass
    """)

    project.tests(f"WORD = 'one'\n{own}")
    project.record()
    project.tests(f"WORD = 'two'\n{own}")
    before = files(project)
    result = project.run("--cassette-dry-run", "--cassette-report=plan.json")
    result.assert_outcomes(passed=4, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*misses by cause*")
    result.stdout.fnmatch_lines_random(
        [
            "cassettes/warm.yaml: 1 of 1 call changed",
            "cassettes/both.yaml: 1 of 2 calls changed",
            "2 of 4 cassettes need updating*",
        ]
    )
    tests = {name: plan.tests for name, plan in read_plans(project.path / "plan.json").items() if plan.plan.changed}
    assert tests == {
        "cassettes/warm.yaml": ("test_it.py::test_a",),
        "cassettes/both.yaml": ("test_it.py::test_b", "test_it.py::test_c"),
    }
    assert files(project) == before
    project.run("--rerecord=changed").assert_outcomes(passed=5)
    project.go_offline()
    project.run().assert_outcomes(passed=5)
    assert project.run("--cassette-dry-run").ret == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cassette-dry-run", "--rerecord=all"], "--cassette-dry-run shows what --rerecord=changed or *"),
        (["--cassette-max-usd=1"], "--cassette-max-usd needs --rerecord=changed"),
        (["--rerecord=changed", "--cassette-max-usd=-1"], "*expected a limit in US dollars, 0 or more; found -1.0"),
    ],
)
def test_wrong_options(project: Project, options: list[str], message: str) -> None:
    """Options that mean nothing together are refused."""
    edit(project, "one")
    result = project.run(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])


def test_workers_share_the_limit() -> None:
    """Each worker of pytest-xdist is held to its share; a run within one's test has the whole limit."""
    for config, held in ((SimpleNamespace(), "-1.0"), (SimpleNamespace(workerinput={"workercount": 2}), "-0.5")):
        with pytest.raises(pytest.UsageError, match=f"found {held}$"):
            keep_to(-1.0, cast("pytest.Config", config))
