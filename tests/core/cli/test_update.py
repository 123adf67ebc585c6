"""`agenttape update`: a plan, a question, the update, and the replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette

from .conftest import Ended

pytestmark = pytest.mark.process

AGENT = """
from agenttape_core import boundary

@boundary("tool")
def ask(question):
    with open("asked", "a") as file:
        file.write(question)
    return f"{question}!"
"""
TEST = """
import pytest
from agent import ask

@pytest.mark.cassette
def test_a():
    assert ask("same") and ask("WORD")
"""


@pytest.fixture
def edited(taped: Path) -> Path:
    """A project with a recorded test that was edited since, and what was asked for real so far."""
    (taped / "agent.py").write_text(AGENT)
    (taped / "test_it.py").write_text(TEST.replace("WORD", "two"))
    namespace: dict[str, Any] = {}
    exec(AGENT, namespace)
    with use_cassette(taped / "cassettes" / "test_it" / "test_a.yaml", mode="all"):
        namespace["ask"]("same")
        namespace["ask"]("one")
    (taped / "asked").write_text("")
    return taped


def test_tests(edited: Path, command: Any) -> None:
    """Without a yes nothing is executed; with one only what has changed is, and the tests replay, if there are any."""
    cassette = edited / "cassettes" / "test_it" / "test_a.yaml"
    before = cassette.read_bytes()
    asked: Ended = command("update", "test_it.py")
    assert asked.code == 1
    assert "1 of 2 calls changed" in asked.out
    assert "add --yes" in asked.err
    assert ((edited / "asked").read_text(), cassette.read_bytes()) == ("", before)
    healed: Ended = command("update", "--yes", "--json", "test_it.py::test_a")
    assert healed.code == 0
    assert list(healed.json["plans"]) == ["test_it.py::test_a"]
    assert list(healed.json["changes"]) == ["cassettes/test_it/test_a.yaml"]
    assert (edited / "asked").read_text() == "two"
    (edited / "test_it.py").write_text("import nothing_like_it\n")
    ended: Ended = command("update", "--yes", "test_it.py")
    assert ended.code == 2
    assert "pytest ended with 2" in ended.err
    assert "nothing_like_it" in ended.err


def test_a_command(edited: Path, command: Any) -> None:
    """A function or a command is replayed for the plan, updated, and replayed."""
    (edited / "app.py").write_text("from agent import ask\n\ndef main():\n    ask('same'), ask('two')\n")
    cassette = "cassettes/test_it/test_a.yaml"
    planned: Ended = command("update", "--dry-run", "--cassette", cassette, "app.py:main")
    assert (planned.code, (edited / "asked").read_text()) == (1, "")
    assert planned.out.startswith(f"{cassette}: 1 of 2 calls changed")
    healed: Ended = command("update", "--yes", "--cassette", cassette, "app.py:main")
    assert (healed.code, (edited / "asked").read_text()) == (0, "two")
    assert "outcome.value" in healed.out
    assert "request" not in healed.out, "the question was just edited"


@pytest.mark.parametrize("subcommand", ["update", "replay", "record"])
def test_a_cassette_is_no_command(edited: Path, command: Any, subcommand: str) -> None:
    """A cassette before the command is told to belong to its option, with the command line that does it."""
    ended: Ended = command(subcommand, "cassettes/test_it/test_a.yaml", "--", "python", "app.py")
    assert ended.code == 2
    assert "cassettes/test_it/test_a.yaml is a cassette, and no command" in ended.err
    assert "--cassette cassettes/test_it/test_a.yaml -- python app.py" in ended.err


def test_a_cassette_that_cannot_be_opened(edited: Path, command: Any) -> None:
    """A test without a plan is named with its remedy, whoever opens its cassette, and nothing is said to be well."""
    cassette = edited / "cassettes" / "test_it" / "test_a.yaml"
    whole = cassette.read_bytes()
    cassette.write_bytes(whole.replace(b"---\n", b"<<<<<<< ours\n---\n", 1))
    (edited / "other.yaml").write_bytes(cassette.read_bytes())
    own = "\ndef test_b():\n    with use_cassette('other.yaml'):\n        pass\n"
    (edited / "test_it.py").write_text(f"from agenttape_core import use_cassette\n{TEST}{own}")
    for words in (["--yes"], ["--dry-run", "--json"]):
        ended: Ended = command("update", "test_it.py", *words)
        assert ended.code == 1
        assert "no plan for 2 tests, whose cassettes cannot be opened:\ncassettes/test_it/test_a.yaml:" in ended.err
        assert "other.yaml:" in ended.err
        assert "git checkout --ours cassettes/test_it/test_a.yaml" in ended.err
    cassette.write_bytes(whole)
    assert (edited / "asked").read_text() == ""
    ended = command("update", "test_it.py", "--yes")
    assert ended.code == 1
    assert "no plan for 1 test, " in ended.err
    assert (edited / "asked").read_text() == "WORD"


MODELS = """
from agenttape_core import boundary

@boundary("chat")
def ask(model, question):
    with open("asked", "a") as file:
        file.write(question)
    return {"content": question, "usage": {"input_tokens": 1000, "output_tokens": 1000}}

def main():
    for question in open("questions").read().split():
        ask("m", question)
"""


def test_a_limit_for_new_calls_of_a_command(edited: Path, command: Any) -> None:
    """A new call of a model, of which the plan knows no cost, isn't made if it may cost more than is left."""
    (edited / "prices.json").write_text('{"m": {"input": 10, "output": 20}}')
    (edited / "pyproject.toml").write_text('[tool.agenttape]\nprices = "prices.json"\n')
    (edited / "paying.py").write_text(MODELS)
    (edited / "questions").write_text("a")
    assert command("record", "--cassette", "paid", "paying.py:main").code == 0
    before = (edited / "cassettes/paid.yaml").read_bytes()
    (edited / "questions").write_text("a b c")
    (edited / "asked").write_text("")
    ended: Ended = command("update", "--yes", "--max-usd", "0.05", "--cassette", "paid", "paying.py:main")
    assert ended.code != 0
    assert "$0.0300 of $0.05 is spent" in ended.err
    assert (edited / "asked").read_text() == "b"
    assert (edited / "cassettes/paid.yaml").read_bytes() == before
