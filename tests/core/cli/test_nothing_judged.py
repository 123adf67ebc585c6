"""Commands that judge: each fails where there was nothing to judge, or has a reason why it does not."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import COMMANDS, EXPERIMENTS, run

from ...kit.git import git

NOTHING = "nothing/empty.yaml"
IDLE = ["program.py:idle", "--cassette", NOTHING]
REFUSED = {
    "check --only files": (["folder"], 3, "there is no cassette in this folder"),
    "check --coverage": (["nothing"], 1, "nothing is covered: no cassette holds a call"),
    "check --score": (["nothing", "--evaluator", "program:kind"], 1, "nothing was scored: no run holds a call"),
    "check": (["nothing", "--checks", "checks.yaml"], 1, "nothing was checked: no run holds a call or an answer"),
    "update": (["test_plain.py"], 1, "nothing was replayed: no test has a cassette"),
    "lab bisect": ([*IDLE, "--good", "HEAD"], 2, "holds no call"),
    "lab change": ([*IDLE, "--base", "HEAD"], 2, "holds no call"),
    "lab faults": (["test_plain.py"], 1, "none could be tried"),
    "lab flaky": (IDLE, 2, "holds no call"),
    "lab model": (["openai:new", "program.py:idle", "--run", NOTHING], 2, "none is recorded"),
    "lab mutants": (IDLE, 2, "record that first"),
    "lab orders": (IDLE, 1, "returned without a recorded call, so there is no order to try"),
    "lab shrink": (IDLE, 2, "holds no call"),
    "lab why": (IDLE, 2, "holds no call"),
    "diff": (["--base", "HEAD", "--exit-code", "folder"], 1, "nothing was compared"),
    "cassette checksum": (["folder"], 3, "there is no cassette in this folder"),
    "cassette redact": (["--dry-run", "folder"], 3, "there is no cassette in this folder"),
    "replay": (["--cassette", "missing", "--", sys.executable, "program.py"], 3, "No cassette yet"),
    "verify": (["program.py:idle", "--runs", "2"], 1, "it made no recorded call, so there is nothing to verify"),
}
"""Commands that give a verdict: words that let one judge nothing, its exit code, and the sentence."""

WITHOUT_VERDICT = {
    **dict.fromkeys(("export", "ls", "show", "cassette schema"), "it shows what there is"),
    **dict.fromkeys(
        ("cassette convert", "import", "cassette migrate", "cassette recover"),
        "it rewrites the cassettes that are named",
    ),
    "review": "no recording waits, which is what you want to know",
    "doctor": "it examines the project, which is there without a cassette, too; a named path without one is wrong",
    "cassette prune": "no unneeded file is what you want",
    "init": "it sets a project up",
    "record": "it judges nothing: the exit code is that of the command",
    "mcp": "it answers a coding agent, and shows what there is",
    "serve": "it answers until Ctrl-C, and its finding is a call without an answer",
}
"""The other commands, each with the reason why 0 is right where it finds nothing."""


def test_each_command_is_listed() -> None:
    """A new command says here what it does where there is nothing to judge."""
    experiments = [f"lab {name}" for name in EXPERIMENTS]
    assert sorted([*{subcommand.partition(" --")[0] for subcommand in REFUSED}, *WITHOUT_VERDICT]) == sorted(
        [*(set(COMMANDS) - {"lab", "fleet"}), *experiments]
    )


@pytest.mark.process
@pytest.mark.usefixtures("forked_tests")
@pytest.mark.parametrize("subcommand", sorted(REFUSED))
def test_nothing_judged(
    subcommand: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A command that gives a verdict on nothing fails, and says so."""
    program = dedent("""
        def idle():
            pass


        def kind(run):
            return True
    """)

    Path("program.py").write_text(program, encoding="utf-8")
    Path("test_plain.py").write_text("def test_plain(): pass\n", encoding="utf-8")
    Path("checks.yaml").write_text("checks: 1\nevery: [{never: pay}, {at_most: {tokens: 1}}]\n", encoding="utf-8")
    Path("folder").mkdir()
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other plugins take longer than the runs
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin")
    git("init", "-q")
    git("commit", "-qm", "x", "--allow-empty")
    with use_cassette(NOTHING, mode="all"):
        pass
    words, code, sentence = REFUSED[subcommand]
    ended = run([*subcommand.split(), *words])
    told = capfd.readouterr()
    assert (ended, sentence in told.out + told.err) == (code, True), told
