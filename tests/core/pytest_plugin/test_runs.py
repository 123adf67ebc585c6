"""A marked test records once and replays ever after, in every way that pytest runs tests."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from .conftest import Project

pytestmark = pytest.mark.process

KINDS = {
    "function": """
@pytest.mark.cassette
def test_it():
    assert ask("hi") == "hi! 1"
""",
    "fixture without a marker": """
def test_it(cassette):
    assert ask("hi") == "hi! 1"
""",
    "coroutine (asyncio)": """
@pytest.mark.asyncio
@pytest.mark.cassette
async def test_it():
    assert ask("hi") == "hi! 1"
""",
    "coroutine (anyio)": """
@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"

@pytest.fixture(scope="module")
async def wide(anyio_backend):
    yield

@pytest.mark.anyio
@pytest.mark.cassette
async def test_it(wide):
    assert ask("hi") == "hi! 1"
""",
    "TestCase": """
import unittest

class Tests(unittest.TestCase):
    @pytest.mark.cassette
    def test_it(self):
        self.assertEqual(ask("hi"), "hi! 1")
""",
    "IsolatedAsyncioTestCase": """
import unittest

class Tests(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.cassette
    async def test_it(self):
        self.assertEqual(ask("hi"), "hi! 1")
""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_records_and_replays(project: Project, kind: str) -> None:
    """What a test of any kind asked is replayed when nobody answers any more, with the same random numbers and ids."""
    last = KINDS[kind].rstrip().splitlines()[-1]
    indent = last[: len(last) - len(last.lstrip())]
    project.tests(f"import random, uuid\n{KINDS[kind]}{indent}print('drawn', random.random(), uuid.uuid4())\n")
    recorded = project.record("-s")
    project.go_offline()
    replayed = project.run("-s")
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["1 cassette replayed, 1 call*"])
    drawn = [[line for line in run.outlines if "drawn" in line] for run in (recorded, replayed)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 1


def test_fixtures_belong_to_the_test(project: Project) -> None:
    """What fixtures of the test's own scope ask is recorded with it, before what the test asks."""
    project.tests("""
@pytest.fixture
def warm():
    return ask("warm")

@pytest.mark.cassette
def test_it(warm, cassette):
    assert (warm, ask("hi")) == ("warm! 1", "hi! 2")
    assert [item.request["arguments"]["question"] for item in cassette.interactions] == ["warm", "hi"]
""")
    project.record()
    project.go_offline()
    project.run().assert_outcomes(passed=1)


def test_what_other_plugins_do_between_the_phases_is_outside(project: Project) -> None:
    """A plugin that seeds the random numbers anew before each phase does not change those of the test."""
    project.pytester.makeconftest("""
import os, random

def pytest_runtest_setup(item):
    random.seed(os.urandom(8))

def pytest_runtest_call(item):
    random.seed(os.urandom(8))
""")
    project.tests("""
import random

@pytest.mark.cassette
def test_it():
    assert ask(str(random.random()))
""")
    project.record()
    project.go_offline()
    project.run().assert_outcomes(passed=1)


def test_unmarked_tests_are_left_alone(project: Project) -> None:
    """A test without a marker runs for real, and nothing is said about cassettes."""
    project.tests("""
def test_it():
    assert ask("hi") == "hi! 1"
""")
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*cassettes*")
    assert project.cassettes() == []


def test_a_fixture_of_the_same_name(project: Project) -> None:
    """A project that has a fixture `cassette` of its own keeps it, and its unmarked tests are left alone."""
    project.tests("""
@pytest.fixture
def cassette():
    return "theirs"

def test_it(cassette):
    assert (cassette, ask("hi")) == ("theirs", "hi! 1")
""")
    project.run().assert_outcomes(passed=1)


def test_without_a_cassette_nothing_is_recorded(project: Project) -> None:
    """The default is to replay: a test without a cassette fails with the command that records it, and no traceback."""
    project.tests(KINDS["function"])
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["No cassette for this test yet: *test_it.yaml", "*pytest test_it.py::test_it --cassette-mode=once"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*lifecycle.py*")
    assert project.cassettes() == []


def test_skipped_and_expected_to_fail(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that skips itself, or fails as expected, is not failed for what it did not ask."""
    project.tests("""
import os

@pytest.mark.cassette
def test_skips():
    assert ask("hi")
    if os.environ.get("SKIPS"):
        pytest.skip("no more")
    assert ask("ho")
""")
    project.record()
    monkeypatch.setenv("SKIPS", "1")
    project.run().assert_outcomes(skipped=1)


def test_what_is_skipped_while_it_is_recorded(project: Project) -> None:
    """The first recording of a test that is skipped is whole: a replay skips it, too. What failed is not recorded."""
    project.tests("""
@pytest.fixture
def skips():
    pytest.skip("no such thing here")

@pytest.fixture
def fails():
    raise OSError("no such thing")

@pytest.mark.cassette
def test_asks():
    ask("hi")
    pytest.skip("no more")

@pytest.mark.cassette
def test_fixture(skips):
    pass

@pytest.mark.cassette
def test_fails(fails):
    pass
""")
    project.run("--cassette-mode=once").assert_outcomes(skipped=2, errors=1)
    assert project.cassettes() == ["test_it/test_asks.yaml", "test_it/test_fixture.yaml"]
    project.go_offline()
    result = project.run("--deselect=test_it.py::test_fails")
    result.assert_outcomes(skipped=2, deselected=1)
    assert result.ret == 0


def test_a_cassette_that_is_asked_for_while_the_test_runs(project: Project) -> None:
    """`request.getfixturevalue` opens the cassette in the middle of a test, and it is judged with the test."""
    test = """
def test_asks(request):
    cassette = request.getfixturevalue("cassette")
    assert ask("hi")
    assert len(cassette.interactions) == 1
"""
    project.tests(test)
    project.record().stdout.fnmatch_lines(["recorded  cassettes/test_it/test_asks.yaml  1 recorded"])
    project.go_offline()
    project.run().assert_outcomes(passed=1)
    project.tests(test.replace("hi", "ho"))
    project.run().assert_outcomes(failed=1)


def test_start_costs_next_to_nothing() -> None:
    """The plugin is loaded by every run of pytest, and imports nothing for those without cassettes."""
    code = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport agenttape_core.pytest_plugin\n"
        "print(sorted({m for m in set(sys.modules) - before if not m.startswith('_')} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = ("", ".lifecycle", ".lifecycle.running_test", ".named_tuples")
    plugin = ("", ".command_line", ".replayed")
    names = [*(f"agenttape_core{each}" for each in ours), *(f"agenttape_core.pytest_plugin{each}" for each in plugin)]
    assert done.stdout.strip() == str(names)


def test_modules_of_tests_are_imported_without_collections(project: Project) -> None:
    """Modules and conftests are imported without collections of garbage; tests run with the thresholds as they were."""
    usual = gc.get_threshold()
    project.pytester.makeconftest("import gc\n\nSEEN = gc.get_threshold()")
    project.tests(f"""
import conftest, gc
HERE = gc.get_threshold()

@pytest.mark.cassette
def test_it(cassette):
    assert ask("hi") == "hi! 1"
    assert (conftest.SEEN[0] > 100_000, HERE[0] > 100_000, gc.get_threshold()) == (True, True, {usual})
""")
    project.record()
    assert gc.get_threshold() == usual
