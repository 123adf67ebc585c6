"""`lab change` within a limit: only the calls that a change affects are made, by both revisions in pairs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import change

from ..kit.git import git
from .conftest import serving_as_openai

pytestmark = pytest.mark.process

AGENT = """
from agenttape_core import boundary

IN_STOCK = True


@boundary("tool")
def stock(title):
    if not IN_STOCK:
        raise AssertionError("a tool was called")
    return "3 copies"


def answer():
    ask("Which book?")
    found = ask(f"Be brief. Is Dune there? {stock('Dune')}")
    ask(f"Say it nicely: {found}")
    assert "yes" in found, found
"""
ASK = """

import json
import os
from urllib.request import Request, urlopen

@boundary("chat")
def complete(model, messages):
    body = json.dumps({"model": model, "messages": messages}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer any"}
    request = Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urlopen(request) as answer:
        return json.load(answer)


def ask(text):
    found = complete("gpt-5-mini", [{"role": "user", "content": text}])
    return found["choices"][0]["message"]["content"]
"""
"""A chat without a framework, whose import in each process would take longer than all runs."""
TEST = """
import pytest
from agent import answer

@pytest.mark.cassette("../answer.yaml")
def test_answer():
    answer()
"""
WORSE = ("Be brief. Is", "Be rude. Is")
CASSETTE = "../answer.yaml"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The prompts that a model on the loopback got: a repository with a recorded program, whose tool is gone."""
    reply = import_module("examples.weather_agent.policy").Reply
    found: Counter[str] = Counter()

    def said(turn: Any) -> Any:
        found[turn.user_text] += 1
        return reply("no" if "rude" in turn.user_text else f"yes {found[turn.user_text]}")

    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within the second would not be seen
    monkeypatch.setattr(sys, "path", [str(repository), *sys.path])
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin")
    Path("agent.py").write_text(AGENT + ASK)
    Path("test_agent.py").write_text(TEST)
    Path("prices.json").write_text(json.dumps({"gpt-5-mini": {"input": 1000, "output": 1000}}))
    Path("pyproject.toml").write_text('[tool.agenttape]\nprices = "prices.json"\n')
    with serving_as_openai(said, monkeypatch):
        with use_cassette(CASSETTE, mode="all"):
            import_module("agent").answer()
        found.clear()
        edit("IN_STOCK = True", "IN_STOCK = False")
        git("init", "-q", "-b", "main")
        git("add", "-A")
        git("commit", "-qm", "One")
        yield found
    for name in ("agent", "test_agent"):
        sys.modules.pop(name, None)


def edit(old: str, new: str) -> None:
    """Edit the program."""
    text = Path("agent.py").read_text()
    assert old in text
    Path("agent.py").write_text(text.replace(old, new))


def test_a_worse_prompt(asked: Counter[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt that fails is WORSE after six pairs; siblings and tools are replayed, and a resumed run asks nothing."""
    edit(*WORSE)
    words = ["lab", "change", "agent.py:answer", "--cassette", CASSETTE, "--base", "main"]
    assert run([*words, "--dry-run"]) == 1
    shown = capsys.readouterr().out
    assert "1 CHANGED" in shown
    assert "40 calls of models at most, about $" in shown
    assert asked == {}, "nothing is called in a dry run"
    assert run([*words, "--max-usd", "100", "--report", "../found.json"]) == 1
    shown = capsys.readouterr().out
    assert "the working tree against main: 1 recording, 1 WORSE" in shown
    assert "0 of 6 samples passed" in shown
    assert asked["Be rude. Is Dune there? 3 copies"] == asked["Be brief. Is Dune there? 3 copies"] == 6
    assert asked["Which book?"] == 0, "a sibling is replayed"
    assert asked["Say it nicely: no"] == 6, "what depends on the new call is called"
    found = json.loads(Path("../found.json").read_text())
    assert (found["counts"], len(found["trials"][0]["samples"])) == ({"WORSE": 1}, 12)
    (derived, *_) = sorted(Path(".agenttape/candidates").glob("*.changed.1.derived.yaml"))
    assert [one.kind for one in open_cassette(derived).interactions()] == ["chat", "tool", "chat", "chat"]
    asked.clear()
    assert run([*words, "--max-usd", "100", "--resume", "../found.json"]) == 1
    assert asked == {}, "no sample is taken again"
    edit("Be rude", "Be very rude")
    with pytest.raises(ConfigurationError, match="can't be resumed: its samples are of the working tree@"):
        change("agent.py:answer", CASSETTE, base="main", max_usd=1, resume="../found.json")


def test_the_limit(asked: Counter[str]) -> None:
    """No call is made beyond the limit, a test is a target, and pairs run in parallel."""
    edit("Be brief. Is", "Be short. Is")
    found = change("test_agent.py::test_answer", base="HEAD", samples=2, max_usd=100, jobs=2)
    (trial,) = found.trials.trials
    assert [one.passed for one in trial.samples] == [True] * 4
    assert (found.cases[0].verdict, found.ok) == ("UNCLEAR", True)
    assert sum(asked.values()) == 6, "what follows from a recorded answer is replayed"
    asked.clear()
    stopped = change("test_agent.py::test_answer", base="HEAD", samples=2, max_usd=0.01)
    assert "it may cost more than is left" in stopped.stopped
    assert asked == {}
    assert stopped.cases[0].verdict == "CHANGED"


def test_tools_are_not_called(asked: Counter[str]) -> None:
    """A changed call of a tool isn't made unless it's named, and a call that is left out has nothing to make."""
    edit("stock('Dune')", "stock('Emma')")
    (case,) = change("agent.py:answer", CASSETTE, base="main", max_usd=100).cases
    assert case.held == "not tried, as it would call tool stock: name it in live (--live)"
    edit("IN_STOCK = False", "IN_STOCK = True")
    found = change("agent.py:answer", CASSETTE, base="main", max_usd=100, samples=1, live=["stock"])
    assert [one.left_out for one in found.trials.trials[0].samples] == ["", ""]
    asked.clear()
    edit('    ask(f"Say it nicely: {found}")\n', "")
    edit("Emma", "Dune")
    (case,) = change("agent.py:answer", CASSETTE, base="main", max_usd=100).cases
    assert (case.verdict, case.held) == (
        "CHANGED",
        "not tried, as it makes no new request, and leaves recorded ones out",
    )
    assert asked == {}
