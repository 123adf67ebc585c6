"""Markers, the fixture `cassette_config` and the command line choose how a cassette is used."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from agenttape_core.integration import current_session

from .conftest import Project

pytestmark = pytest.mark.process

SEVERAL = """
@pytest.mark.cassette
def test_a():
    assert ask("a")

@pytest.mark.cassette
def test_b():
    assert ask("b")
"""


def test_rerecord(project: Project) -> None:
    """`--rerecord` records all selected tests again, and excludes a mode."""
    project.tests(SEVERAL)
    project.record()
    project.run("--rerecord", "-k", "test_a").stdout.fnmatch_lines(["recorded  cassettes/test_it/test_a.yaml*"])
    result = project.run("--rerecord", "--cassette-mode=none")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*--rerecord and --cassette-mode exclude each other*"])


def test_one_file_for_each_test(project: Project) -> None:
    """Module, classes and parameters are in the name; a name that no file may have is changed and kept apart."""
    project.tests("""
class TestA:
    class TestB:
        @pytest.mark.cassette
        @pytest.mark.parametrize("x", ["1", "a/b", "a:b"])
        def test_c(self, x):
            assert ask(x)
""")
    project.record()
    names = [re.sub("~.{8}", "~", name) for name in project.cassettes()]
    assert names == ["test_it/TestA.TestB.test_c[1].yaml", *["test_it/TestA.TestB.test_c[a-b]~.yaml"] * 2]


def test_names(project: Project) -> None:
    """A marker's bare name is a file beside the module, its path starts from the folder of the module."""
    project.tests("""
@pytest.mark.cassette("weather")
def test_a():
    assert ask("a")

@pytest.mark.cassette(name="other/b.jsonl")
def test_b():
    assert ask("b")
""")
    project.record()
    assert project.cassettes() == ["weather.yaml"]
    assert (project.path / "other" / "b.jsonl").is_file()


def test_two_tests_do_not_record_to_one_file(project: Project) -> None:
    """A cassette that a test has just recorded is not replaced by that of another test, only replayed."""
    project.tests('pytestmark = pytest.mark.cassette("shared")\n' + SEVERAL.replace("@pytest.mark.cassette\n", ""))
    result = project.run("--cassette-mode=all")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*was recorded by test_it.py::test_a in this run*"])
    assert current_session() is None


@pytest.mark.usefixtures("forked_tests")
def test_two_workers_do_not_record_to_one_file(project: Project) -> None:
    """Nor do two tests that run in different processes, one after the other."""
    # The second worker begins when the first has ended.
    in_turn = dedent("""
        import os, time
        from pathlib import Path

        pytestmark = pytest.mark.cassette("shared")

        @pytest.fixture(scope="module", autouse=True)
        def in_turn():
            waits = os.environ["PYTEST_XDIST_WORKER"] == "gw1"
            until = time.monotonic() + 60
            while waits and not Path("done").exists() and time.monotonic() < until:
                time.sleep(0.01)
            yield
            Path("done").touch()
    """)

    project.tests(in_turn + SEVERAL.replace("@pytest.mark.cassette\n", ""))
    result = project.run("--cassette-mode=all", "-n2")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*was recorded by test_it.py::test_[ab] in this run*"])


TWINS = """
@pytest.mark.cassette
@pytest.mark.parametrize("x", ["a", "A"])
def test_v(x):
    assert ask(x)
"""


@pytest.mark.parametrize("runs", [[()], [("test_it.py::test_v[a]",), ("test_it.py::test_v[A]",)]])
def test_names_that_differ_in_case_only(project: Project, runs: list[tuple[str, ...]]) -> None:
    """Two tests whose cassettes would be one file on other systems are told so, when the second one records."""
    project.tests(TWINS)
    for args in runs:
        result = project.run("--cassette-mode=once", *args)
    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines(["*test_v[[]A].yaml and the cassette of another test would be one file on macOS*"])
    assert project.cassettes() == ["test_it/test_v[a].yaml"]


def test_tests_that_differ_in_case_only_and_record_at_once(project: Project) -> None:
    """Also when neither file was there when the tests began."""
    project.tests(
        """
import os

@pytest.fixture
def cassette_config():
    listed, os.listdir = os.listdir, lambda folder: []
    yield {}
    os.listdir = listed
"""
        + TWINS
    )
    result = project.run("--cassette-mode=once")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*not matter: test_it.py::test_v[[]a] has recorded test_v[[]a].yaml in this*"])


def test_nearer_options_win(project: Project) -> None:
    """The options of the fixture, the module's, the class's and the function's marker add up, the nearest wins."""
    project.tests("""
pytestmark = pytest.mark.cassette(tags=["module"], on_unused="ignore")

@pytest.fixture
def cassette_config():
    return {"tags": ["fixture"], "on_miss": "return"}

@pytest.mark.cassette(mode="all")
class TestA:
    @pytest.mark.cassette(tags=["function"])
    def test_it(self, cassette):
        assert cassette.mode == "record"
        assert cassette.session.policy.on_miss == "return"
        ask("hi")
""")
    project.run().assert_outcomes(passed=1)
    (path,) = (project.path / "cassettes").rglob("*.yaml")
    assert "tags:\n- function\n" in path.read_text()


def test_the_command_line_wins(project: Project) -> None:
    """The mode of the command line replaces that of the marker."""
    project.tests('@pytest.mark.cassette(mode="all")\ndef test_it():\n    assert ask("hi")\n')
    project.run("--cassette-mode=none").assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("marker", "args", "message"),
    [
        ("(mod='all')", (), "*unknown option mod; options are accept, allow_hosts, *"),
        ("('a', 'b')", (), "*expected at most one name, then options*"),
        ("(mode='al')", (), "*'al' isn't a mode*"),
        ("", ("--rerecord", "--cassette-mode=all"), "*exclude each other*"),
        ("", ("--cassette-max-age=old",), "*--cassette-max-age=old: expected a number of days*"),
        ("", ("--rerecord=failed", "-p", "no:cacheprovider"), "*needs pytest's cache*"),
    ],
)
def test_what_cannot_be(project: Project, marker: str, args: tuple[str, ...], message: str) -> None:
    """A mistake in a marker or on the command line is told before anything is asked."""
    project.tests(f"@pytest.mark.cassette{marker}\ndef test_it():\n    assert ask('hi')\n")
    result = project.run(*args)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_record_the_failing_ones(project: Project) -> None:
    """Only what failed in the last run is recorded anew."""
    project.tests(SEVERAL)
    project.record()
    project.tests(SEVERAL.replace('ask("b")', 'ask("c")'))
    project.run().assert_outcomes(passed=1, failed=1)
    result = project.run("--rerecord=failed")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["recorded *test_b.yaml*", "1 cassette replayed*"])


def test_age(project: Project) -> None:
    """A cassette that is too old fails its test, and is the one that is recorded anew on request."""
    project.tests(SEVERAL)
    project.record()
    path = project.path / "cassettes" / "test_it" / "test_b.yaml"
    path.write_text(re.sub('created: ".*"', 'created: "2020-01-01T00:00:00Z"', path.read_text()))
    result = project.run("--cassette-max-age=90d")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*test_b.yaml was recorded * days ago; --cassette-max-age allows 90d"])
    project.run("--cassette-max-age=90d", "--rerecord=stale").assert_outcomes(passed=2)
    project.run("--cassette-max-age=90d").assert_outcomes(passed=2)


def test_stale_needs_an_age(project: Project) -> None:
    """To record what is too old, without saying what that is, is a mistake and not a run that records nothing."""
    project.tests(SEVERAL)
    result = project.run("--rerecord=stale")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --rerecord=stale needs --cassette-max-age: *"])


@pytest.mark.parametrize("how", [("--rerecord",), ("--cassette-mode=all", "--cassette-max-age=90d")])
def test_a_broken_cassette_is_recorded_anew(project: Project, how: tuple[str, ...]) -> None:
    """What the message names helps: the new cassette is there, and the broken file beside it."""
    project.tests(SEVERAL)
    project.record()
    path = project.path / "cassettes" / "test_it" / "test_b.yaml"
    broken = path.read_text().replace("\nname:", "\n<<<<<<< ours\nname:", 1)
    path.write_text(broken)
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["  *record everything again:  pytest test_it.py::test_b --cassette-mode=record", "cannot open *test_b.yaml*"]
    )
    result = project.run(*how)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["recorded *test_b.yaml*; the unreadable file is kept as test_b.yaml.broken"])
    assert path.with_name("test_b.yaml.broken").read_text() == broken
    project.go_offline()
    project.run("--cassette-strict=orphans").assert_outcomes(passed=2)


def test_orphans(project: Project) -> None:
    """Cassettes of tests that are gone fail the run on request, those of tests that were only not selected do not."""
    project.tests(SEVERAL)
    project.record()
    assert project.run("--cassette-strict=orphans", "-k", "test_a").ret == 0
    assert project.run("--cassette-strict=orphans", "test_it.py::test_a").ret == 0
    project.tests(SEVERAL.replace("test_b", "test_c"))
    for folder in ("test_gone", "incidents", "test_run.processes"):
        cassette = project.path / "cassettes" / folder / "x.yaml"
        cassette.parent.mkdir()
        cassette.touch()
    result = project.run("--cassette-strict=orphans", "-k", "test_a")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*orphaned cassettes*", "cassettes/test_gone/x.yaml", "cassettes/test_it/test_b.yaml"], consecutive=True
    )
    assert project.run("-k", "test_a").ret == 0


PLAIN = """
from agenttape_core import use_cassette

@pytest.fixture(scope="module")
def warm():
    with use_cassette("warm"):
        return ask("warm")

def test_plain(warm):
    with use_cassette("plain"):
        print("asked", warm, ask("hi"))

def test_given():
    with use_cassette("given", mode="once") as session:
        assert session.mode == "once"
        ask("given")
"""


def test_sessions_of_fixtures_and_tests(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line reaches sessions that fixtures and tests open without a mode, and wins over the environment."""
    project.tests(PLAIN)
    assert project.run("-k", "plain").parseoutcomes() == {"errors": 1, "deselected": 1}
    project.record("--no-header")
    assert project.cassettes() == ["given.yaml", "plain.yaml", "warm.yaml"]
    project.go_offline()
    monkeypatch.setenv("AGENTTAPE_MODE", "all")
    result = project.run("-s", "--cassette-mode=none")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*asked warm! 1 hi! 2"])
    monkeypatch.delenv("AGENTTAPE_MODE")
    project.run("--rerecord", "-k", "plain").stdout.fnmatch_lines(["*nobody answers*"])
    project.run("--rerecord", "--cassette-mode=all", "-k", "plain").stdout.fnmatch_lines(["*exclude each other*"])


def test_settings_of_the_project_of_the_tests(
    project: Project, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings are those around the tests, from whatever folder pytest was started."""
    (project.path / "pyproject.toml").write_text('[tool.agenttape]\nmode = "once"\nprices = "p.json"\n')
    (project.path / "p.json").write_text("{}")
    project.tests(PLAIN + SEVERAL)
    for name in ("deep", "elsewhere"):
        folder = project.path / name if name == "deep" else project.path.parent / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        pytester.runpytest_inprocess(str(project.path)).assert_outcomes(passed=4)
        assert list(folder.iterdir()) == []
    marked = [f"test_it/test_{name}.yaml" for name in "ab"]
    assert project.cassettes() == ["given.yaml", "plain.yaml", *marked, "warm.yaml"]
