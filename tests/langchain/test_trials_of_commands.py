"""Candidates on commands and on replayed agents: which samples are kept, and which of them pass."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import langchain_openai  # noqa: F401 - what is imported in a session only is forgotten after it
import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.tools.oracle import OracleServer, ToolOracle, read_oracle

from .conftest import serving_as_openai

pytestmark = pytest.mark.process

PROGRAM = """
import os
from langchain_openai import ChatOpenAI


def main():
    if "QUIET" not in os.environ:
        print(ChatOpenAI(model="old", max_retries=0).invoke("Is it done?").text)


if __name__ == "__main__":
    main()
"""

SERVICE = """
import os
from agenttape_core.asgi import TapeInbound
from langchain_openai import ChatOpenAI


async def answer(scope, receive, send):
    if scope["type"] != "http":
        return
    text = (await ChatOpenAI(model="old", max_retries=0).ainvoke("Is it done?")).text
    status = 500 if "broken" in text else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    body = "first line\\n" + text + os.environ.get("MORE", "")
    await send({"type": "http.response.body", "body": body.encode()})


app = TapeInbound(answer, "runs")
"""

MAIL = "someone" + "@" + "house.org"


@pytest.fixture
def folder(tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with both programs, and a service whose models name themselves."""
    reply = import_module("examples.weather_agent.policy").Reply
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", f"{python}{os.pathsep}{os.environ['PATH']}")
    for name, text in {"program": PROGRAM, "service": SERVICE}.items():
        Path(f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    with serving_as_openai(lambda turn: reply(f"{turn.body['model']} says yes to {MAIL}"), monkeypatch):
        yield tmp_path
    for name in ("program", "service", "desk"):
        sys.modules.pop(name, None)  # others have modules of these names


def model(name: str, *words: str) -> int:
    """Try a model."""
    return run(["lab", "model", f"openai:{name}", *words])


COMMAND = ("--", "python", "program.py")


@pytest.mark.usefixtures("folder")
def test_samples_keep_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Each sample that was paid for is there, in the format of the recording, and every command can read it."""
    with use_cassette("cassettes/one.v2.jsonl.gz", mode="all"):
        import_module("program").main()
    how = ("--samples", "2/1", "-o", "kept", "--report", "out.json")
    assert model("new", "--run", "cassettes/one.v2.jsonl.gz", *how, *COMMAND) == 0
    wanted = [f"one.v2.{sample}.jsonl.gz" for sample in ("openai-new.1", "openai-new.2", "own.1")]
    assert sorted(path.name for path in Path("kept").iterdir()) == wanted
    (trial,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]
    found = trial["samples"]
    assert sorted(Path(one["cassette"]).name for one in found) == wanted
    assert sorted(one["answer"].split()[0] for one in found) == ["new", "new", "old"]
    capsys.readouterr()
    assert run(["ls", "kept", "--json"]) == 0
    assert [row["interactions"] for row in json.loads(capsys.readouterr().out)] == [1] * 3
    assert run(["ls", "--json"]) == 0
    assert [row["path"] for row in json.loads(capsys.readouterr().out)] == ["cassettes/one.v2.jsonl.gz"]
    for path in Path("kept").iterdir():
        assert [call.kind for call in open_cassette(path).interactions()] == ["chat"]
    assert len({one["run_id"] for one in found}) == 3


@pytest.mark.usefixtures("folder")
def test_a_trial_that_asks_no_model_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A trial whose runs call no model fails and shows it: as samples, and as one run by a setting."""
    with use_cassette("cassettes/one.jsonl", mode="all"):
        import_module("program").main()
    monkeypatch.setenv("QUIET", "1")
    how = ("--run", "cassettes/one.jsonl", "--samples", "2/0", "--report", "out.json")
    assert model("new", *how, *COMMAND) == 1
    assert "2 of 2 samples failed" in (shown := capsys.readouterr().out)
    assert "nothing to judge: no sample of openai:new counts (2 made no call)" in shown
    (trial,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]
    assert [(one["passed"], one["left_out"]) for one in trial["samples"]] == [(False, "made no call")] * 2
    monkeypatch.setenv("AGENTTAPE_CANDIDATE", "openai:new")
    assert run(["replay", "--cassette", "one", *COMMAND]) == 1
    assert "the candidate was not tried: the command asked no model" in capsys.readouterr().err
    Path("quiet.py").write_text("from agenttape_core import boundary\nboundary('tool', name='look')(len)('x')\n")
    assert run(["replay", "--cassette", "one", "--live", "look", "--", "python", "quiet.py"]) == 1
    assert "0 replayed, 1 recorded" in (shown := capsys.readouterr().err)
    assert "the candidate was not tried: the command asked no model" in shown


@pytest.mark.usefixtures("folder")
def test_many_runs_in_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Recorded runs of a folder are tried side by side in this process, each sample with its answer and its run id."""
    for number in range(3):
        with use_cassette(f"runs/{number}.jsonl", mode="all"):
            import_module("program").main()
    how = ("--run", "runs", "--samples", "2", "--jobs", "4", "--report", "out.json", "--report", "out.xml")
    assert model("new", "program:main", *how) == 0
    shown = capsys.readouterr().out
    trials = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]
    assert [(one["name"], one["verdict"]) for one in trials] == [(f"runs/{n}.jsonl", "UNCLEAR") for n in range(3)]
    samples = [sample for trial in trials for sample in trial["samples"]]
    assert [sample["left_out"] for sample in samples] == [""] * 12
    assert [sample["answer"].split()[0] for sample in samples] == ["old", "new"] * 6
    assert len({sample["run_id"] for sample in samples}) == 12
    assert all(f"{sample['run_id'][:12]}  {sample['answer'].split()[0]} says yes" in shown for sample in samples)
    names = sorted(path.name for path in Path(".agenttape/candidates").glob("*.jsonl"))
    assert names[:4] == ["0.openai-new.1.jsonl", "0.openai-new.2.jsonl", "0.own.1.jsonl", "0.own.2.jsonl"]
    assert Path("out.xml").read_text(encoding="utf-8").count("<testcase") == 3
    assert model("new", "program:main", "--run", "runs/[01].jsonl", "--resume", "out.json", "--samples", "2") == 0
    assert len(list(Path(".agenttape/candidates").glob("*.jsonl"))) == 12


@pytest.mark.usefixtures("folder")
def test_what_is_refused_before_it_costs_anything(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that doesn't replay its recording to begin with is refused, and so are words that don't go together."""
    with use_cassette("one", mode="all"):
        import_module("langchain_openai").ChatOpenAI(model="old", max_retries=0).invoke("Is it over?")
    assert model("new", "program:main", "--run", "one") == 1
    assert (
        "program:main doesn't replay cassettes/one.yaml to begin with: ChatOpenAI was called" in capsys.readouterr().err
    )
    assert not Path(".agenttape/candidates").exists()
    for words in ([], ["program:main", *COMMAND], ["--app", "program:main"], ["a:b", "c:d", "--run", "one"]):
        assert model("new", *words) == 2


@pytest.mark.usefixtures("folder")
def test_derived_files_are_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """A derived cassette names its model, and a command that counts the runs of a folder leaves it out."""
    with use_cassette("runs/one.jsonl", mode="all"):
        import_module("program").main()
    for name in ("new", "newer"):
        with use_cassette("runs/one.jsonl", candidate=f"openai:{name}"):
            import_module("program").main()
    names = ["one.jsonl", "one.openai-new.derived.jsonl", "one.openai-newer.derived.jsonl"]
    assert sorted(path.name for path in Path("runs").iterdir()) == names
    for words, count in (("runs", 1), (f"runs/{names[1]}", 1)):
        capsys.readouterr()
        assert run(["show", "--stats", "--json", words]) == 0
        assert json.loads(capsys.readouterr().out)["cassettes"] == count
    assert model("new", "program:main", "--run", "runs", "--samples", "1", "--report", "out.json") == 0
    assert len(json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]) == 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("is_replayed", [False, True])
def test_an_oracle_answers_for_tools(is_replayed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an oracle, a call of a tool that this run has no recording of is answered by a file, or by a server."""
    tools = dedent("""
        from langchain_core.tools import tool
        from langchain_openai import ChatOpenAI
        import os


        @tool
        def price(item: str) -> str:
            "Get a price."
            return "12"


        def main():
            answer = ChatOpenAI(model="old", max_retries=0).invoke("What costs it?").text
            return price.invoke({"item": answer.split()[0]})
    """)

    Path("desk.py").write_text(tools, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    with use_cassette("one", mode="all"):
        import_module("desk").main()
    with use_cassette("other", mode="all"):
        import_module("desk").price.invoke({"item": "new"})
    how = ("desk:main", "--run", "one", "--samples", "1/0", "--report", "out.json")
    assert model("new", *how) == 1
    assert run(["export", "other", "--format", "oracle", "-o", "oracle.json"]) == 0
    oracle = ToolOracle(read_oracle("oracle.json"))
    with OracleServer(oracle) as server:
        assert model("new", *how, "--oracle", server.url if is_replayed else "oracle.json") == 0
    (trial,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]
    assert trial["samples"][0]["left_out"] == ""
    assert oracle.answered == int(is_replayed)


@pytest.mark.usefixtures("folder")
def test_checks_judge_samples() -> None:
    """A sample passes only if the checks of a file hold for its run."""
    with use_cassette("one", mode="all"):
        import_module("program").main()
    how = ("program:main", "--run", "one", "--samples", "1/0", "--report", "out.json")
    for word, passed in (("yes", True), ("no way", False)):
        Path("c.yaml").write_text(f"checks: 1\nevery:\n  - output: {{contains: '{word}'}}\n", encoding="utf-8")
        assert model("new", *how, "--checks", "c.yaml", "--fail-under", "0") == 0
        (trial,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]
        assert trial["samples"][0]["passed"] is passed


@pytest.fixture
def source(folder: Path, python: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The recording of a request to the server, which begins again as a fork."""
    monkeypatch.setattr(sys, "executable", str(python / "python"))
    app: Any = import_module("service").app

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(_: Any) -> None:
        pass

    async def request() -> None:
        await app({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}, receive, send)
        await app.written()

    asyncio.run(request())
    monkeypatch.delitem(sys.modules, "service")
    (path,) = Path("runs").iterdir()
    assert path.suffix == ".jsonl"
    return str(path)


def test_a_replayed_agent(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that words its answer otherwise passes; the lines that differ are reported, redacted. A 500 fails."""
    replayed = ("--run", source, "--asgi", "service:app", "--samples", "1/0", "--report", "out.json")
    assert model("new", *replayed, "-o", "kept") == 0
    (trial,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]
    (sample,) = trial["samples"]
    assert (sample["passed"], sample["problem"]) == (True, "")
    before, now = sample["differences"][-2:]
    assert (before.startswith("-old says yes"), now.startswith("+new says yes")) == (True, True)
    assert "first line" in " ".join(sample["differences"][:-2]), "what is the same is context, no difference"
    assert MAIL not in Path("out.json").read_text(encoding="utf-8")
    assert [path.suffix for path in Path("kept").iterdir()] == [".jsonl"]

    assert model("broken", *replayed) == 1
    assert "the server answered with 500" in capsys.readouterr().out
    (trial,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]
    assert trial["samples"][0]["passed"] is False


def test_a_strict_replay_fails_on_a_difference(
    source: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without anything live, a server that answers otherwise than it was recorded still fails."""
    replayed = ("replay", "--run", source, "--asgi", "service:app")
    assert run(replayed) == 0
    monkeypatch.setenv("MORE", " more")
    assert run(replayed) == 1
    assert "the server's answer differs from its recording" in capfd.readouterr().err
