"""A test that has recorded and passed is replayed at once, and a difference is reported with its cause."""

from __future__ import annotations

import tempfile
from textwrap import dedent

import pytest

from agenttape_core.pytest_plugin.verdict import Verdict
from agenttape_core.pytest_plugin.whole_run import summary

from .conftest import Project

pytestmark = pytest.mark.process


def test_what_replays(project: Project) -> None:
    """Tests of every kind are run again with fixtures of their own, and leave no trace in the report."""
    same = dedent("""
        import asyncio, unittest

        life = []

        @pytest.fixture(scope="module", autouse=True)
        def wide():
            life.append("wide")
            yield
            print("the life of fixtures:", *life, "end")

        @pytest.fixture
        def own(tmp_path):
            life.append("own")
            yield tmp_path
            life.append("gone")

        @pytest.mark.cassette
        def test_function(own, capsys, cassette, request):
            request.node.user_properties.append(("asked", ask("hi")))
            assert f"read {own}/a.txt in {own.parent}" in ask(f"read {own}/a.txt in {own.parent}")
            assert f"read {own}/a.txt" in cassette.interactions[-1].request["arguments"]["question"]
            print("seen")
            assert capsys.readouterr().out == "seen\\n"
            cassette.assert_matches_snapshot(ask("golden"))

        @pytest.mark.cassette
        class TestClass:
            seen = False

            @pytest.mark.parametrize("n", [1, 2])
            def test_method(self, n):
                assert not self.seen
                self.seen = ask(n)

        class TestOfUnittest(unittest.TestCase):
            def setUp(self):
                self.seen = False

            @pytest.mark.cassette
            def test_case(self):
                self.assertFalse(self.seen)
                self.seen = ask("case")

        @pytest.mark.cassette
        @pytest.mark.asyncio
        async def test_asyncio():
            await asyncio.sleep(0)
            assert ask("asyncio")

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.cassette
        @pytest.mark.anyio
        async def test_anyio():
            assert ask("anyio")

        def test_unmarked():
            import agent
            assert len(agent.asked) == 8
    """)

    project.tests(same)
    result = project.run("--cassette-mode=once", "--cassette-strict=replay-check", "-s", "--junitxml=junit.xml")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(
        ["*the life of fixtures: wide own gone own gone end", "8 calls recorded; 6 recordings replay OK"]
    )
    result.stdout.no_fnmatch_line("*does not replay*")
    text = (project.path / "junit.xml").read_text("utf-8")
    assert (text.count('name="asked"'), text.count('name="cassette.replay_check" value="same"')) == (1, 6)
    project.go_offline()
    (path,) = (project.path / "cassettes").rglob("test_function.yaml")
    assert "read [REDACTED:tmp_path:" in path.read_text("utf-8")
    again = project.run("--cassette-strict=replay-check")  # temporary folders have other names in each run
    again.assert_outcomes(passed=6, failed=1)  # the unmarked one: nothing was executed
    again.stdout.no_fnmatch_line("*replays OK*")


def test_doctests(project: Project) -> None:
    """A doctest has a cassette where a hook marks it, and has its names when it runs again."""
    project.pytester.makeconftest("""
        import pytest

        def pytest_itemcollected(item):
            item.add_marker(pytest.mark.cassette)
    """)
    example = ">>> ask('a').startswith('a!')\nTrue\n"
    (project.path / "doctested.py").write_text(
        f'from agent import ask\n\nclass Agent:\n    """An agent.\n\n{example}"""\n'
    )
    (project.path / "page.txt").write_text(f">>> from agent import ask\n{example}")
    options = ("--doctest-modules", "--doctest-glob=*.txt", "doctested.py", "page.txt")
    result = project.record("--cassette-strict=replay-check", *options)
    result.stdout.fnmatch_lines(["2 calls recorded; 2 recordings replay OK"])
    project.go_offline()
    project.run(*options).assert_outcomes(passed=2)


DIFFER = """
import functools, os, unittest
import agent
from agenttape_core import boundary, use_cassette

@functools.lru_cache
def store():
    return ask("store")

@boundary("tool")
def write(path):
    with open(path, "w") as file:
        file.write("report")

@pytest.mark.cassette
def test_cached():
    assert store()

@pytest.mark.cassette
def test_drawn():
    assert ask(os.urandom(4).hex())

@pytest.mark.cassette
def test_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("report.md")
    with open("report.md") as file:
        assert file.read() == "report"

@pytest.mark.cassette(on_miss="return", on_unused="ignore")
def test_told(tmp_path):
    try:
        ask(os.urandom(4).hex())
    except Exception:
        pass

class TestCase(unittest.TestCase):
    times = []

    @pytest.mark.cassette
    def test_case(self):
        ask("case")
        self.times.append(1)
        self.assertEqual(len(self.times), 1)

@pytest.mark.cassette(check_replay=False)
def test_once():
    assert ask(os.urandom(4).hex())

@pytest.mark.cassette
def test_nested():
    with use_cassette("nested", mode="all"):
        assert ask("inner")
    assert ask("outer")

def test_unmarked():
    assert len(agent.asked) == 7
"""


def test_what_does_not(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test that differs has a verdict and a cause; it stays passed, and nothing was executed twice."""
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "true")
    project.tests(DIFFER)
    result = project.run("--cassette-mode=all", "-p", "no:randomly")
    result.assert_outcomes(passed=8)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "does not replay cassettes/test_it/test_cached.yaml  1 recorded",
            "does not replay cassettes/test_it/test_drawn.yaml  1 recorded",
            "does not replay cassettes/test_it/test_written.yaml  1 recorded",
            "does not replay cassettes/test_it/test_told.yaml  1 recorded",
            "does not replay cassettes/test_it/TestCase.test_case.yaml  1 recorded",
            "recorded  cassettes/test_it/test_once.yaml  1 recorded",
            "recorded  cassettes/test_it/test_nested.yaml  1 recorded",
            "7 calls recorded; 1 recording replays OK",
            "*= 5 recordings do not replay (they will fail in CI) =*",
            "test_it.py::test_cached passed while recording, then failed when it was replayed right away:",
            "  UnusedInteractionsError: The run made 0 of the 1 recorded calls in cassettes/*",
            "       1  call ask at ask",
            "    last call made: none",
            "  to try it in a new process:   pytest test_it.py::test_cached",
            "test_it.py::test_drawn passed while recording*",
            "  test_it.py:24: CassetteMissError: ask was called with a request *",
        ],
        consecutive=True,
    )
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_written passed while recording*",
            "*FileNotFoundError: * 'report.md'",
            "  write wrote report.md while recording. In a replay its body doesn't run.",
            "test_it.py::test_told passed while recording*",
            "  it passed, with 1 unrecorded",
            "test_it.py::TestCase::test_case passed while recording*",
            "  test_it.py:47: AssertionError: 2 != 1",
            "A test that passes in a new process left something behind *",
            "a module variable or a thread in a database: *",
        ]
    )
    result.stdout.no_fnmatch_line("*record everything again*")


SUBTESTS = """
import unittest, agent

@pytest.mark.cassette
def test_same(subtests):
    for n in (1, 2):
        with subtests.test(n=n):
            assert ask(n)
    with subtests.test("left out"):
        pytest.skip("left out")
    with subtests.test("left out, too"):
        raise unittest.SkipTest

class TestCase(unittest.TestCase):
    @pytest.mark.cassette
    def test_case(self):
        for n in (3, 4):
            with self.subTest(n=n):
                self.assertTrue(ask(n))

@pytest.mark.cassette
def test_differs(subtests):
    with subtests.test("once"):
        assert ask(len(agent.asked))

@pytest.mark.cassette
def test_fails(subtests):
    with subtests.test("always"):
        assert not ask("fails")

@pytest.mark.xfail(strict=False)
@pytest.mark.cassette
def test_expected(subtests):
    with subtests.test("expected"):
        assert not ask("expected")
"""


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest has subtests from version 9 on")
def test_subtests(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay check counts no subtest again, and one that fails only in it is a difference."""
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "true")
    project.tests(SUBTESTS)
    result = project.run("--cassette-mode=all", "-p", "no:randomly", "-o", "verbosity_subtests=1")
    result.stdout.fnmatch_lines(
        [
            "7 calls recorded; 3 recordings replay OK",
            "*= 1 recording does not replay (it will fail in CI) =*",
            "test_it.py::test_differs passed while recording*",
            "  test_it.py:27: CassetteMissError: *",
            "=* 2 failed, 3 passed, 2 skipped, 1 xfailed, 1 xpassed, 5 subtests passed in *",
        ]
    )


TEMPORARY = """
import tempfile, agent
from agenttape_core import use_cassette

@pytest.mark.cassette
def test_of_pytest(tmp_path):
    assert ask("outer")
    with use_cassette(tmp_path / "inner.yaml", mode="once"):
        assert ask("inner")

@pytest.mark.cassette
def test_of_python():
    with tempfile.TemporaryDirectory() as folder, use_cassette(f"{folder}/inner.yaml", mode="once"):
        assert ask("inner")
    assert ask("outer")

@pytest.mark.cassette
def test_of_its_folder(tmp_path, monkeypatch):
    assert ask("outer")
    with monkeypatch.context() as within:
        within.chdir(tmp_path)
        with use_cassette("inner.yaml", mode="once"):
            assert ask("inner")

@pytest.mark.cassette
def test_named(tmp_path):
    with use_cassette("gone", mode="once"):
        assert ask("inner")
    with open("cassettes/gone.yaml") as file:
        assert file.read()
    import os
    os.remove("cassettes/gone.yaml")

@pytest.mark.cassette
def test_hides_a_miss(tmp_path):
    try:
        ask(len(agent.asked))
    finally:
        with use_cassette(tmp_path / "inner.yaml", mode="once"):
            assert ask("inner")

def test_makes():
    with use_cassette("golden", mode="once"):
        ask("golden")

@pytest.mark.cassette
def test_copies(tmp_path):
    import shutil
    before = len(agent.asked)
    assert ask("outer")
    shutil.copy("cassettes/golden.yaml", tmp_path)
    with use_cassette(tmp_path / "golden.yaml"):
        assert ask("golden" if len(agent.asked) > before else "another")
"""


def test_a_cassette_in_a_temporary_folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that records in a temporary folder does so in each run: no replay of it is checked, and none is lost."""
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "true")
    monkeypatch.setenv("TMPDIR", str(project.path.parent))
    monkeypatch.setattr(tempfile, "tempdir", None)
    project.tests(TEMPORARY)
    result = project.run("--cassette-mode=once", "-p", "no:randomly")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(
        [
            "recorded  cassettes/test_it/test_of_pytest.yaml  1 recorded",
            "recorded  cassettes/test_it/test_of_python.yaml  1 recorded",
            "recorded  cassettes/test_it/test_of_its_folder.yaml  1 recorded",
            "does not replay cassettes/test_it/test_named.yaml*",
            "does not replay cassettes/test_it/test_hides_a_miss.yaml*",
            "does not replay cassettes/test_it/test_copies.yaml*",
            "*= 3 recordings do not replay (they will fail in CI) =*",
        ]
    )


def test_a_difference_as_a_failure(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `fail`, from a setting or a variable, a difference is an error of the test; the cassette stays."""
    project.tests(DIFFER)
    monkeypatch.delenv("AGENTTAPE_CHECK_REPLAY")
    (project.path / "pyproject.toml").write_text('[tool.agenttape]\ncheck_replay = "fail"\n')
    result = project.run("--cassette-mode=once", "-x", "-k", "drawn or once")
    result.assert_outcomes(passed=1, errors=1, deselected=6)
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_drawn passed while recording, then failed when it was replayed right away:",
            "  test_it.py:24: CassetteMissError: *",
            "ERROR test_it.py::test_drawn - *",
        ]
    )
    result.stdout.no_fnmatch_line("*does not replay (it will fail in CI)*")
    assert project.cassettes() == ["test_it/test_drawn.yaml"]
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "false")
    project.run("--cassette-mode=all", "-k", "drawn").assert_outcomes(passed=1, deselected=7)
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "perhaps")
    project.run("--cassette-mode=all", "-k", "drawn").stdout.fnmatch_lines(
        ["*check_replay='perhaps': expected true, false *"]
    )


def test_a_failing_teardown_is_not_lost(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wider fixture raises at its end is an error of the test as ever, and a failing own one ends the proof."""
    project.tests("""
@pytest.fixture(scope="module")
def wide():
    yield
    raise ValueError("wide")

@pytest.fixture
def own():
    yield
    raise ValueError("own")

@pytest.mark.cassette
def test_wide(wide):
    assert ask("hi")

@pytest.mark.cassette
def test_own(wide, own):
    assert ask("ho")
""")
    monkeypatch.setenv("AGENTTAPE_CHECK_REPLAY", "true")
    wide = project.run("--cassette-mode=once", "-k", "wide")
    wide.assert_outcomes(passed=1, errors=1, deselected=1)
    wide.stdout.fnmatch_lines(["*ValueError: wide", "*1 recording replays OK"])
    own = project.run("--cassette-mode=once")
    own.assert_outcomes(passed=2, errors=1)
    own.stdout.fnmatch_lines(["*ValueError: own", "*ValueError: wide"])
    own.stdout.no_fnmatch_line("*replays OK*")


def test_the_verdict_crosses_processes() -> None:
    """A difference is part of what a worker sends, and of the one line of its test."""
    verdict = Verdict("c.yaml", "recorded", recorded=1, replay_check="differs", difference="a\nb")
    sent = Verdict.from_properties(verdict.added_to([]))
    assert sent == verdict
    assert summary([verdict], everything=False)[0] == "does not replay c.yaml  1 recorded"
