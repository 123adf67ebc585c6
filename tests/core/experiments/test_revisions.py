"""`lab change` and `lab bisect`: revisions of a program, each replayed in a worktree."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import ConfigurationError, VerificationError
from agenttape_core.experiments import bisect, change

from ...kit.git import git

pytestmark = pytest.mark.process

DESK = """
from agenttape_core import boundary

NUMBER = {number}

@boundary("chat")
def ask(question):
    raise AssertionError("a model was called")
"""
GOOD = 'return ask("Is Dune there?")'
BAD = 'return ask("Is there Dune?")'
BROKEN = "return ask("
FAILS = 'return ask("Is Dune there?")[7]'


def program(body: str, number: int = 0, **others: str) -> str:
    """Return the text of the program: `answer` with a body, and other functions with theirs."""
    functions = {"answer": body, **others}
    return DESK.format(number=number) + "".join(f"\ndef {name}():\n    {each}\n" for name, each in functions.items())


def commit(*texts: str) -> None:
    """Commit one text of the program after another, all in one process."""
    first = int(git("rev-list", "--count", "HEAD"))
    stream = "reset refs/heads/main\nfrom refs/heads/main^0\n"
    for number, text in enumerate(texts, first):
        stream += f"commit refs/heads/main\ncommitter a <a@example.com> {number} +0000\ndata <<END\nChange {number}\n"
        stream += f"END\nM 644 inline desk.py\ndata {len(text)}\n{text}\n"
    subprocess.run(["git", "fast-import", "--quiet"], input=stream, check=True, text=True)
    git("reset", "-q", "--hard")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a program and its recording, which is not in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin")
    git("init", "-q", "-b", "main")
    (tmp_path / "test_desk.py").write_text(
        "import pytest\nfrom desk import answer, ask\n\n"
        "@pytest.mark.cassette('../desk.yaml')\ndef test_answer():\n    assert answer() == 'Yes.'\n\n"
        "@pytest.mark.cassette('../desk.yaml')\ndef test_same():\n    assert ask('Is Dune there?') == 'Yes.'\n"
    )
    (tmp_path / "desk.py").write_text(program(GOOD))
    git("add", "-A")
    git("commit", "-qm", "Change 0")
    live = program(GOOD).replace('raise AssertionError("a model was called")', 'return "Yes."')
    namespace: dict[str, Callable[[], str]] = {}
    exec(live, namespace)
    with use_cassette(tmp_path.parent / "desk.yaml", mode="all"):
        namespace["answer"]()
    yield tmp_path
    for name in ("desk", "test_desk"):
        sys.modules.pop(name, None)
    assert git("worktree", "list", "--porcelain").count("worktree ") == 1, "no worktree is left"


CASSETTE = "../desk.yaml"


def test_the_commit_of_32(desk: Path) -> None:
    """Of 32 commits, the one that changed a prompt takes at most 6 replays; Ctrl-C leaves those that may be it."""
    commit(*(program(GOOD if number < 21 else BAD, number) for number in range(1, 33)))
    found = bisect("desk.py:answer", CASSETTE, good="HEAD~32")
    assert found.is_found
    assert found.candidates == (git("log", "-1", "--format=%h Change 21", "HEAD~11"),)
    assert found.commits == 32
    assert found.replays <= 6
    assert "ask was called with a request that isn't in the cassette" in found.why
    assert git("status", "--porcelain") == ""
    runs: list[None] = []

    def interrupt() -> None:
        runs.append(None)
        if len(runs) == 4:
            raise KeyboardInterrupt

    part = bisect("desk.py:answer", CASSETTE, good="HEAD~32", on_run=interrupt)
    assert not part.is_whole
    assert found.candidates[0] in part.candidates
    assert 1 < len(part.candidates) <= 16


def test_what_cannot_be_judged(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A commit that can't be imported is passed over; where only such commits are between, all of them are named."""
    commit(*(program(body) for body in (GOOD, BROKEN, BAD)))
    search = ["lab", "bisect", "desk.py:answer", "--cassette", CASSETTE, "--good", "HEAD~3"]
    assert run([*search, "--report", "../found.json"]) == 125
    assert "one of these is the first that does not replay" in capsys.readouterr().out
    found = json.loads(Path("../found.json").read_text())
    assert [one.partition(" ")[2] for one in found["candidates"]] == ["Change 2", "Change 3"]
    assert ["SyntaxError" in why for why in found["unjudged"].values()] == [True]
    assert run([*search, "--bad", "HEAD~1"]) == 1
    assert "HEAD~1 can't be judged" in capsys.readouterr().err


def test_bad_input(desk: Path) -> None:
    """A commit that replays is not bad, and one that there isn't is refused."""
    commit(program(GOOD, 1))
    with pytest.raises(VerificationError, match="there's nothing to find"):
        bisect("desk.py:answer", CASSETTE, good="HEAD~1")
    with pytest.raises(ConfigurationError, match="there's no commit after HEAD up to HEAD"):
        bisect("desk.py:answer", CASSETTE, good="HEAD")
    with pytest.raises(ConfigurationError, match="name a commit, branch or tag: --good main"):
        bisect("desk.py:answer", CASSETTE, good="nowhere")
    with pytest.raises(ConfigurationError, match="has no cassette"):
        change("desk.py:answer", base="HEAD")


def test_a_change(desk: Path) -> None:
    """The working tree is compared with its base, recording by recording, and nothing in it changes."""
    assert run(["lab", "change", "desk.py:answer", "--cassette", CASSETTE, "--base", "HEAD"]) == 0
    commit(program(GOOD, diverged=GOOD, failed=GOOD, mended=BAD, broken=BAD))
    Path("desk.py").write_text(program(GOOD, diverged=BAD, failed=FAILS, mended=GOOD, broken=BAD, new=GOOD))
    names = ["answer", "diverged", "failed", "mended", "broken", "new"]
    found = change([f"desk.py:{name}" for name in names], CASSETTE, base="HEAD")
    same, diverged, failed, mended, broken, new = found.cases
    assert (same.verdict, mended.verdict, broken.verdict) == ("SAME", "BETTER", "UNCLEAR")
    assert (new.verdict, new.ok) == ("NEW", True), "the base can't run it, so that it isn't better"
    assert "6 recordings, 2 CHANGED, 1 UNCLEAR, 1 BETTER, 1 NEW, 1 SAME" in str(found)
    assert (diverged.verdict, diverged.changed.how) == ("CHANGED", "diverged")
    assert "ask was called with a request that isn't in the cassette" in diverged.why
    assert (failed.verdict, failed.changed.how) == ("CHANGED", "failed")
    assert "IndexError at" in failed.why
    git("commit", "-qam", "Change 2")
    Path("desk.py").write_text(program(BROKEN))
    (case,) = change("desk.py:mended", CASSETTE, base="HEAD~1", to="HEAD").cases
    assert case.verdict == "BETTER", "the working tree doesn't count then"


def test_a_change_of_a_test(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test is replayed from its own cassette, in the worktree and in the working tree."""
    Path("desk.py").write_text(program(BAD))
    change = ["lab", "change", "test_desk.py::test_answer", "test_desk.py::test_same", "--base", "HEAD"]
    assert run([*change, "--report", "../change.xml"]) == 1
    assert "the working tree against HEAD: 2 recordings, 1 CHANGED, 1 SAME" in capsys.readouterr().out
    assert Path("../change.xml").read_text().count("<failure") == 1
