"""`--cassette-review`: new recordings of tests wait for review, and are proved where they wait."""

from __future__ import annotations

import pytest

from agenttape_core.tools.review import accept, pending_in, pending_of

from .conftest import Project

TESTS = """
from agenttape_core import use_cassette

@pytest.mark.cassette
def test_a(cassette):
    first = ask(WORD)
    cassette.assert_matches_snapshot(first)
    assert ask("then").startswith("then")

@pytest.mark.cassette
def test_b():
    assert ask("b")

@pytest.fixture
def shelf():
    with use_cassette("cassettes/shelf.yaml", mode="once"):
        return ask("shelf")

def test_c(shelf):
    assert shelf
"""


def edit(project: Project, word: str) -> None:
    """Let the first test ask for something else."""
    project.tests(f"WORD = {word!r}\n{TESTS}")


@pytest.fixture
def edited(project: Project) -> Project:
    """A project with recorded tests, of which one was edited since."""
    edit(project, "one")
    project.record()
    edit(project, "two")
    return project


@pytest.mark.slow
def test_a_recording_waits_and_is_proved(edited: Project) -> None:
    """A test that records again passes and is proved, its cassette and snapshot stay; accepted, it replays."""
    before = {name: (edited.path / "cassettes" / name).read_bytes() for name in edited.cassettes()}
    result = edited.run("--rerecord=changed", "--cassette-review", "--cassette-strict=replay-check")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "to review cassettes/test_it/test_a.yaml  1 replayed, 1 recorded, 1 dropped",
            "1 recording to review:  agenttape review",
        ]
    )
    after = {name: (edited.path / "cassettes" / name).read_bytes() for name in edited.cassettes()}
    assert {name: text for name, text in after.items() if name in before} == before
    assert after.keys() - before.keys() == {"test_it/test_a.pending.yaml", "test_it/test_a.pending.snapshot.yaml"}
    edited.go_offline()
    edited.run().assert_outcomes(passed=2, failed=1)
    for path in pending_in([edited.path]):
        accept(pending_of(path))
    assert edited.cassettes() == sorted(before)
    edited.run().assert_outcomes(passed=3)


@pytest.mark.slow
def test_what_waits_belongs_to_its_test(edited: Project) -> None:
    """A recording that waits is no orphan, and no cassette of a renamed test."""
    edited.run("--rerecord", "--cassette-review")
    assert "test_it/test_b.pending.yaml" in edited.cassettes()
    result = edited.run("--cassette-mode=none", "--cassette-strict=orphans", "-k", "test_b")
    assert result.ret == 0, result.stdout.str()


def test_a_session_of_a_fixture_waits_too(edited: Project) -> None:
    """A session that a test or a fixture opens itself follows the command line."""
    edited.run("--rerecord", "--cassette-review", "-k", "test_c")
    assert "shelf.pending.yaml" not in edited.cassettes()  # its mode is its own
    edited.tests(f"WORD = 'one'\n{TESTS}".replace(', mode="once"', ""))
    edited.run("--rerecord", "--cassette-review", "-k", "test_c").assert_outcomes(passed=1, deselected=2)
    assert "shelf.pending.yaml" in edited.cassettes()


def test_a_failing_test_leaves_nothing_waiting(edited: Project) -> None:
    """A test that fails while it records leaves nothing to review."""
    edited.tests(f"WORD = 'one'\n{TESTS}".replace('startswith("then")', 'startswith("else")'))
    edited.run("--rerecord", "--cassette-review", "-k", "test_a").assert_outcomes(failed=1, deselected=2)
    assert not [name for name in edited.cassettes() if "pending" in name]


def test_a_marker(edited: Project) -> None:
    """A test can say by itself that its recordings wait."""
    edited.tests(f"WORD = 'two'\n{TESTS}".replace("@pytest.mark.cassette\n", "@pytest.mark.cassette(review=True)\n"))
    edited.run("--rerecord", "-k", "test_b").assert_outcomes(passed=1, deselected=2)
    assert "test_it/test_b.pending.yaml" in edited.cassettes()
