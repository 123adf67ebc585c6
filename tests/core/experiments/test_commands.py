"""Commands as targets of experiments: `agenttape lab NAME -- COMMAND`, each run in a new process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core import Variation, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import faults, mutants, program_of

from ...kit.git import git
from .test_revisions import commit

pytestmark = pytest.mark.process

AGENT = """
import sys
from agenttape_core import boundary

@boundary("tool")
def price(city):
    raise AssertionError("really asked")

@boundary("chat")
def note(text):
    raise AssertionError("really asked")

def answer():
    try:
        found = price("Nice")
    except TimeoutError:
        found = "unknown"
    return note(f"It costs {found}.")
"""
AS_RECORDED = "print(answer())\n"
FAILS = "assert 'note' not in answer()\n"
FAILS_ANYWAY = "price('Nice')\nassert 'note' not in note('It costs A note on 8.')\n"
COMMAND = ["--", "python", "desk.py"]


@pytest.fixture
def desk(tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a program that is a script with this end, and record it."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{python}{os.pathsep}{os.environ['PATH']}")

    def written(end: str) -> Path:
        Path("desk.py").write_text(AGENT + end)
        namespace: dict[str, Any] = {}
        exec(
            AGENT.replace('raise AssertionError("really asked")', 'return "A note on " + str(len(__name__))'), namespace
        )
        with use_cassette(tmp_path / "desk.yaml", mode="all"):
            namespace["answer"]()
        return tmp_path / "desk.yaml"

    return written


def lab(capsys: pytest.CaptureFixture[str], *words: object, code: int) -> Any:
    """Run an experiment, and return its result as data."""
    capsys.readouterr()
    ended = run(["lab", words[0], "--json", *map(str, words[1:])])  # type: ignore[list-item]
    out, err = capsys.readouterr()
    assert ended == code, f"{out}\n{err}"
    return json.loads(out)


def test_faults(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Each cell is one child under a replay, judged by its exit code and its output; several run side by side."""
    cassette = desk(AS_RECORDED)
    given = ["--cassette", cassette, "--kinds", "timeout,tool_error,empty", "--jobs", "2"]
    (found,) = lab(capsys, "faults", *given, *COMMAND, code=1)["tests"]
    verdicts = {(cell["target"]["name"], cell["fault"]): cell["verdict"] for cell in found["cells"]}
    assert verdicts == {
        ("price", "timeout"): "new_call",
        ("price", "tool_error"): "raised",
        ("price", "empty"): "new_call",
        ("note", "timeout"): "raised",
        ("note", "empty"): "silent",
    }
    (raised,) = [cell for cell in found["cells"] if cell["fault"] == "tool_error"]
    assert raised["words"] == "ExitError: RuntimeError at desk.py:15 in answer: the tool failed"
    assert faults("-- python desk.py", cassette, ["tool_error"]).count() == {"raised": 1}


@pytest.mark.night
def test_why(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer of the tool is in the request of the model, and that one's is what the command prints."""
    found = lab(capsys, "why", "--cassette", desk(AS_RECORDED), *COMMAND, code=0)
    assert [(edge["from"], edge["to"], edge["way"]) for edge in found["flow"]["edges"]] == [
        (1, 2, "data"),
        (2, 0, "data"),
    ]


@pytest.mark.night
def test_shrink(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The smallest cassette with which a command ends by the same exception at the same line."""
    found = lab(
        capsys, "shrink", "--cassette", desk(FAILS_ANYWAY), "--runs", "20", "-o", "small.yaml", *COMMAND, code=0
    )
    assert (found["failure"]["type"], found["failure"]["function"]) == ("AssertionError", "<module>")
    assert "value: A note" not in Path("small.yaml").read_text(), "of both answers, one word is needed"
    failure = program_of("-- python desk.py").run(Variation("small.yaml")).failure
    assert failure is not None
    assert failure.name == "AssertionError"


@pytest.mark.night
def test_orders(desk: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A race in a command is found, with the command line that replays it in that order."""
    race = dedent("""
        import asyncio
        from agenttape_core import boundary

        @boundary("tool")
        async def search(name):
            raise AssertionError("really asked")

        async def answer():
            found = []
            async def one(name):
                found.append(await search(name))
            await asyncio.gather(one("a"), one("b"))
            return ",".join(found)

        if __name__ == "__main__":
            print(asyncio.run(answer()))
    """)

    desk(AS_RECORDED)
    namespace: dict[str, Any] = {"__name__": "desk"}
    exec(race.replace('raise AssertionError("really asked")', "return name"), namespace)
    with use_cassette(tmp_path / "race.yaml", mode="all"):
        namespace["asyncio"].run(namespace["answer"]())
    Path("desk.py").write_text(race)
    found = lab(capsys, "orders", "--cassette", tmp_path / "race.yaml", "--runs", "6", *COMMAND, code=1)
    assert (found["orders"], found["exhaustive"]) == (2, True)
    (one,) = found["findings"]
    assert one["reproduce"] == f"agenttape lab orders --cassette {tmp_path}/race.yaml --order 2 -- python desk.py"


def test_flaky(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The code of a command is blamed for what fails while everything is replayed; its models aren't called."""
    given = ["--cassette", desk(FAILS), "--samples", "2"]
    found = lab(capsys, "flaky", *given, *COMMAND, code=1)
    assert (found["verdict"], found["groups"][0]["failed"]) == ("code", 2)
    assert run(["lab", "flaky", *map(str, given), "--max-usd", "1", *COMMAND]) == 2
    assert "the models of a command aren't called" in capsys.readouterr().err


@pytest.mark.night
def test_revisions(desk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`change` and `bisect` replay a command in worktrees: the edit of a prompt is found."""
    cassette = desk(AS_RECORDED)
    text = Path("desk.py").read_text()
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "Change 0")
    commit(text + "#\n", text.replace("It costs", "It is"), text.replace("It costs", "It is") + "#\n")
    found = lab(capsys, "bisect", "--cassette", cassette, "--good", "HEAD~3", *COMMAND, code=0)
    assert [one.partition(" ")[2] for one in found["candidates"]] == ["Change 2"]
    found = lab(capsys, "change", "--cassette", cassette, "--base", "HEAD~3", *COMMAND, code=1)
    assert found["counts"] == {"CHANGED": 1}
    assert run(["lab", "change", "--base", "HEAD~3", "--max-usd", "1", "--cassette", str(cassette), *COMMAND]) == 2
    assert "the new requests of a command aren't made" in capsys.readouterr().err


def test_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """`mutants` takes no command, a command needs words, and one that doesn't exist is named."""
    assert run(["lab", "mutants", *COMMAND]) == 2
    assert "mutants takes no command after --: its edits are made where tests import" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="its edits are made where tests import the program"):
        mutants("-- python desk.py", "desk.yaml")
    with pytest.raises(ConfigurationError, match="there is no command nonesuch"):
        program_of("-- nonesuch desk.py")
