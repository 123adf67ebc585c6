"""A session of several tests need not be asked for all it holds where only some of them run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agenttape_core.pytest_plugin.wider_fixtures import is_part, setting_up

from .conftest import Project

TESTS = """
from agenttape_core import use_cassette

@pytest.fixture(scope="module", autouse=True)
def taped():
    with use_cassette("several"OPTIONS):
        yield

@pytest.mark.parametrize("question", ["a", "b", "c"])
def test_it(question):
    assert ask(question)[0] == question
"""


@pytest.fixture
def recorded(project: Project) -> Project:
    """A module with one session for its three tests, recorded."""
    project.tests(TESTS.replace("OPTIONS", ""))
    project.record()
    project.go_offline()
    return project


@pytest.mark.parametrize("chosen", [("-k", "b"), ("test_it.py::test_it[b]",), ("--deselect", "test_it.py::test_it[a]")])
def test_a_part_of_the_tests_may_leave_recordings(recorded: Project, chosen: tuple[str, ...]) -> None:
    """Tests that were left out may ask for what the others have not: nothing fails."""
    assert recorded.run(*chosen).ret == 0


def test_all_tests_together_are_judged(recorded: Project) -> None:
    """Where all tests of the module run, what none of them asks for fails; so it does where the session says so."""
    recorded.tests(TESTS.replace("OPTIONS", "").replace('"a", ', ""))
    recorded.run().stdout.fnmatch_lines(["*The run made 2 of the 3 recorded calls*"])
    recorded.tests(TESTS.replace("OPTIONS", ", on_unused='fail'"))
    recorded.run("-k", "b").stdout.fnmatch_lines(["*The run made 1 of the 3 recorded calls*"])


def test_a_session_of_one_test_is_judged(recorded: Project) -> None:
    """A fixture of one test knows all that asks it: what is left then fails, whichever tests were chosen."""
    recorded.tests(TESTS.replace("OPTIONS", "").replace('"module"', '"function"'))
    recorded.run("-k", "b").stdout.fnmatch_lines(["*The run made 1 of the 3 recorded calls*"])


def test_a_worker_runs_a_part() -> None:
    """A worker of pytest-xdist does not know what the others run, so each of its wider fixtures serves only a part."""
    config: Any = SimpleNamespace(stash=pytest.Stash(), args=["tests"], workerinput={})
    with setting_up(config):
        assert is_part(config)
    assert not is_part(config)
    del config.workerinput
    with setting_up(config):
        assert not is_part(config)
