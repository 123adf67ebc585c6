"""Misses of one cause are told once, and what a miss says is data as well."""

from __future__ import annotations

import pickle
import subprocess
from textwrap import dedent

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError

from .conftest import Project

pytestmark = pytest.mark.process

TESTS = """
PROMPT = "You help with books: WORD."

@pytest.mark.cassette
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a(n):
    assert ask(PROMPT)

@pytest.mark.cassette
def test_b():
    assert look_up("b")
"""


@pytest.fixture
def edited(project: Project) -> Project:
    """A project with four recorded tests, three of which share a prompt that was edited since."""
    project.tests(TESTS)
    project.record()
    project.tests(TESTS.replace("WORD", "briefly"))
    return project


@pytest.mark.usefixtures("forked_tests")
@pytest.mark.parametrize("workers", [[], pytest.param(["-n2"], marks=pytest.mark.night)], ids=["here", "xdist"])
def test_one_cause(edited: Project, workers: list[str]) -> None:
    """The first of several tests that miss alike explains it, the others refer to it, and one command mends all."""
    result = edited.run(*workers)
    result.assert_outcomes(failed=3, passed=1)
    shown = result.stdout.str()
    assert shown.count("; arguments.question differs:") == 1
    assert shown.count("differs as in test_it.py::test_a[") == 2
    result.stdout.fnmatch_lines(
        [
            "*misses by cause*",
            "3 tests, first test_it.py::test_a[[]?]",
            "    call  arguments.question",
            "      + You help with books: briefly.",
            "to record only what changed:         pytest --rerecord=changed",
        ]
    )


def test_a_cause_in_a_fixture(project: Project) -> None:
    """A miss in a fixture fails the tests that use it, each as itself, and one edit in other words is one cause."""
    in_fixtures = dedent("""
        @pytest.fixture
        def warm(request):
            return ask(f"PROMPT for {request.node.name}")

        class TestIt:
            @pytest.mark.cassette
            def test_a(self, warm):
                pass

        @pytest.mark.cassette
        def test_b(warm):
            pass

        def test_plain(warm):
            pass

        @pytest.mark.cassette
        def test_c():
            ask("PROMPT for nothing else")
    """)

    project.tests(in_fixtures)
    project.record()
    project.tests(in_fixtures.replace("PROMPT", "question"))
    result = project.run()
    result.assert_outcomes(errors=2, failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of TestIt.test_a*",
            "E   CassetteMissError: ask was called with a request*",
            "*ERROR at setup of test_b*",
            "E     differs as in test_it.py::TestIt::test_a",
            "3 tests, first test_it.py::TestIt::test_a",
            "      + question for test_a",
        ]
    )


def test_a_cause_in_sessions_of_their_own(project: Project) -> None:
    """Tests that open their sessions themselves are among those of a cause, as marked ones are."""
    own = dedent("""
        from agenttape_core import use_cassette

        def test_a():
            with use_cassette("a"):
                ask("PROMPT of all")

        @use_cassette("b")
        def test_b():
            ask("PROMPT of all")

        @pytest.mark.cassette
        def test_c():
            ask("PROMPT of all")
    """)

    project.tests(own)
    project.record()
    project.tests(own.replace("PROMPT", "question"))
    result = project.run()
    result.assert_outcomes(failed=3)
    assert result.stdout.str().count("differs as in test_it.py::test_") == 2
    result.stdout.fnmatch_lines(["3 tests, first test_it.py::test_?", "      + question of all"])


def test_a_single_test_tells_all(edited: Project) -> None:
    """One test that misses needs no summary."""
    result = edited.run("test_it.py::test_a[1]")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*misses by cause*")


def test_two_causes(edited: Project) -> None:
    """Tests that miss differently explain themselves; the most frequent cause comes first."""
    edited.tests(TESTS.replace("WORD", "briefly").replace('look_up("b")', 'look_up("c")'))
    result = edited.run()
    result.assert_outcomes(failed=4)
    assert result.stdout.str().count("differs as in") == 2
    result.stdout.fnmatch_lines(["3 tests, first *", "1 test, first *test_b"])


def test_a_miss_as_data(tmp_path: pytest.TempPathFactory) -> None:
    """A miss has its parts as attributes and as plain data, also after it came from another process."""

    @boundary("tool")
    def look(city: str) -> str:
        return city

    path = f"{tmp_path}/c.yaml"
    with use_cassette(path, mode="all"):
        look("Paris")
    with pytest.raises(CassetteMissError) as caught, use_cassette(path):
        look("Oslo")
    for miss in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert miss.to_dict() == {
            "summary": miss.summary,
            "kind": "tool",
            "name": "look",
            "address": "look",
            "reason": "was called with a request that isn't in the cassette",
            "cassette": path,
            "nearest": 1,
            "differences": [{"path": "arguments.city", "recorded": "[-Paris-]", "asked": "{+Oslo+}"}],
        }


@pytest.mark.parametrize(
    ("module", "test", "move"),
    [
        (
            "test_new",
            "test_find_books",
            "mkdir -p cassettes/test_new && mv cassettes/test_it/{0} cassettes/test_new/",
        ),
        ("test_it", "test_finds_a_book", "mv cassettes/test_it/{0} cassettes/test_it/test_finds_a_book.yaml"),
        ("test_it", "test_quite_another", None),
    ],
    ids=["module", "test", "another"],
)
def test_renamed(project: Project, module: str, test: str, move: str | None) -> None:
    """The cassette that a test or its module had before it was renamed is offered, and no other test's."""
    body = "@pytest.mark.cassette\ndef {}():\n    ask('x')\n\n@pytest.mark.cassette\ndef test_other():\n    ask('y')\n"
    project.tests(body.format("test_find_books"))
    project.record()
    (project.path / "test_it.py").unlink()
    project.tests(body.format(test), name=module)
    result = project.run("-k", test)
    offered = [line for line in result.stdout.lines if "if the test was renamed" in line]
    if move is None:
        assert offered == []
    else:
        assert move.format("test_find_books.yaml") in offered[0]


def test_a_renamed_test_with_parameters(project: Project) -> None:
    """One command moves the cassettes of all parameters, and each of them is offered that one."""
    body = "@pytest.mark.parametrize('n', [1, 2, 3])\n@pytest.mark.cassette\ndef {}(n):\n    ask(str(n))\n"
    project.tests(body.format("test_find_books"))
    project.record()
    project.tests(body.format("test_finds_books"))
    lines = project.run().stdout.lines
    offered = {line.partition("all its parameters:  ")[2] for line in lines if "if the test was renamed" in line}
    subprocess.run(["sh", "-c", offered.pop()], cwd=project.path, check=True)
    assert not offered
    project.run().assert_outcomes(passed=3)
