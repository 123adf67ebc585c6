"""`lab change` and `lab bisect`: revisions of a program, each replayed in a worktree."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agenttape_core import ConfigurationError, VerificationError, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.experiments import bisect, change

pytestmark = pytest.mark.process

DESK = """
from agenttape_core import boundary

NUMBER = {number}

@boundary("chat")
def ask(question):
    raise AssertionError("a model was called")

def answer():
    {body}
"""
GOOD = 'return ask("Is Dune there?")'
BAD = 'return ask("Is there Dune?")'
BROKEN = "return ask("
FAILS = 'return ask("Is Dune there?")[7]'


def git(*words: str) -> str:
    """Run git in the current folder, and return what it prints."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def commit(number: int, body: str) -> str:
    """Commit the program with another body, and return the commit."""
    Path("desk.py").write_text(DESK.format(number=number, body=body))
    git("add", "desk.py")
    git("commit", "-qm", f"Change {number}")
    return git("rev-parse", "HEAD")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a program and its recording, which is not in it."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    (tmp_path / "test_desk.py").write_text(
        "import pytest\nfrom desk import answer\n\n"
        "@pytest.mark.cassette('../desk.yaml')\ndef test_answer():\n    assert answer() == 'Yes.'\n"
    )
    git("add", "-A")
    commit(0, GOOD)
    live = DESK.format(number=0, body=GOOD).replace('raise AssertionError("a model was called")', 'return "Yes."')
    namespace: dict[str, Callable[[], str]] = {}
    exec(live, namespace)
    with use_cassette(tmp_path.parent / "desk.yaml", mode="all"):
        namespace["answer"]()
    yield tmp_path
    assert git("worktree", "list", "--porcelain").count("worktree ") == 1, "no worktree is left"


CASSETTE = "../desk.yaml"


def test_the_commit_of_64(desk: Path) -> None:
    """Of 64 commits, the one that changed a prompt is found in at most 7 replays."""
    good = git("rev-parse", "HEAD")
    commits = [commit(number, GOOD if number < 41 else BAD) for number in range(1, 65)]
    found = bisect("desk.py:answer", CASSETTE, good=good)
    assert found.is_found
    assert found.candidates == (f"{commits[40][:7]} Change 41",)
    assert found.commits == 64
    assert found.replays <= 7
    assert "no recording for chat ask" in found.why
    assert git("status", "--porcelain") == ""


def test_what_cannot_be_judged(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A commit that can't be imported is passed over; where only such commits are between, all of them are named."""
    bodies = [GOOD, BROKEN, BAD, GOOD]
    for number, body in enumerate(bodies[:3], 1):
        commit(number, body)
    found = bisect("desk.py:answer", CASSETTE, good="HEAD~3")
    assert [one.partition(" ")[2] for one in found.candidates] == ["Change 2", "Change 3"]
    assert ["SyntaxError" in why for why in found.unjudged.values()] == [True]
    assert run(["lab", "bisect", "desk.py:answer", "--cassette", CASSETTE, "--good", "HEAD~3"]) == 125
    assert "one of these is the first that does not replay" in capsys.readouterr().out
    assert run(["lab", "bisect", "desk.py:answer", "--cassette", CASSETTE, "--good", "HEAD~3", "--bad", "HEAD~1"]) == 1
    assert "HEAD~1 can't be judged" in capsys.readouterr().err


def test_bad_input(desk: Path) -> None:
    """A commit that replays is not bad, and one that there isn't is refused."""
    commit(1, GOOD)
    with pytest.raises(VerificationError, match="there's nothing to find"):
        bisect("desk.py:answer", CASSETTE, good="HEAD~1")
    with pytest.raises(ConfigurationError, match="there's no commit after HEAD up to HEAD"):
        bisect("desk.py:answer", CASSETTE, good="HEAD")
    with pytest.raises(ConfigurationError, match="name a commit, branch or tag: --good main"):
        bisect("desk.py:answer", CASSETTE, good="nowhere")
    with pytest.raises(ConfigurationError, match="has no cassette of its own"):
        change("desk.py:answer", base="HEAD")


def test_a_change(desk: Path) -> None:
    """The working tree is compared with its base, recording by recording, and nothing in it changes."""
    assert [case.verdict for case in change("desk.py:answer", CASSETTE, base="HEAD").cases] == ["SAME"]
    Path("desk.py").write_text(DESK.format(number=0, body=BAD))
    (case,) = change("desk.py:answer", CASSETTE, base="HEAD").cases
    assert (case.verdict, case.changed.how) == ("CHANGED", "moved")
    assert "no recording for chat ask" in case.why
    Path("desk.py").write_text(DESK.format(number=0, body=FAILS))
    (case,) = change("desk.py:answer", CASSETTE, base="HEAD").cases
    assert (case.verdict, case.changed.how) == ("CHANGED", "failed")
    assert "IndexError at" in case.why
    git("checkout", "-q", "desk.py")
    commit(1, BAD)
    commit(2, GOOD)
    found = change("desk.py:answer", CASSETTE, base="HEAD~1", to="HEAD")
    assert [case.verdict for case in found.cases] == ["BETTER"]
    found = change("desk.py:answer", CASSETTE, base="HEAD~1", to="HEAD~1")
    assert [case.verdict for case in found.cases] == ["UNCLEAR"]


def test_a_change_of_a_test(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test is replayed from its own cassette, in the worktree and in the working tree."""
    test = "test_desk.py::test_answer"
    assert run(["lab", "change", test, "--base", "HEAD"]) == 0
    Path("desk.py").write_text(DESK.format(number=0, body=BAD))
    assert run(["lab", "change", test, "--base", "HEAD", "--report", "change.xml"]) == 1
    assert "the working tree against HEAD: 1 recording, 1 CHANGED" in capsys.readouterr().out
    assert Path("change.xml").read_text().count("<failure") == 1
    Path("change.xml").unlink()
    git("checkout", "-q", "desk.py")
