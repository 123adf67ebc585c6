"""Candidates on commands and on served agents: which samples are kept, and which of them pass."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import langchain_openai  # noqa: F401 - what is imported in a session only is forgotten after it
import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run

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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with both programs, and a service whose models name themselves."""
    reply = import_module("examples.weather_agent.policy").Reply
    loopback = import_module("examples.weather_agent.server").OpenAILoopback
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {"program": PROGRAM, "service": SERVICE}.items():
        Path(f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    with loopback(lambda turn: reply(f"{turn.body['model']} says yes to {MAIL}")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
        yield tmp_path


def replay(*words: str) -> int:
    """Replay the recorded program with a candidate."""
    return run(["replay", "--candidate", "openai:new", *words, "--", sys.executable, "program.py"])


@pytest.mark.parametrize(
    ("suffix", "baseline", "samples"), [(".jsonl", 1, 2), (".yaml", 0, 1), (".jsonl.gz", 0, 1), (".yaml.zst", 0, 1)]
)
@pytest.mark.usefixtures("folder")
def test_samples_keep_the_format(suffix: str, baseline: int, samples: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each sample that was paid for is there, in the format of the recording, and every command can read it."""
    if suffix.endswith("zst") and find_spec("zstandard") is None:
        pytest.skip("there is no zstandard")
    with use_cassette(f"cassettes/one.v2{suffix}", mode="all"):
        import_module("program").main()
    how = ("--samples", str(samples), "--baseline", str(baseline), "--to", "kept", "--output", "out.json")
    assert replay("--cassette", f"cassettes/one.v2{suffix}", *how) == 0
    lanes = {"baseline": baseline, "candidate": samples}
    wanted = [f"{lane}.{number}{suffix}" for lane, count in lanes.items() for number in range(1, count + 1)]
    assert sorted(path.name for path in Path("kept").iterdir()) == wanted
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))["samples"]
    assert [Path(one["cassette"]).name for one in found] == wanted
    assert [one["answer"].split()[0] for one in found] == ["old"] * baseline + ["new"] * samples
    capsys.readouterr()
    assert run(["ls", "kept", "--json"]) == 0
    assert [row["interactions"] for row in json.loads(capsys.readouterr().out)] == [1] * len(wanted)
    for path in Path("kept").iterdir():
        assert [call.kind for call in open_cassette(path).interactions()] == ["chat"]


@pytest.mark.usefixtures("folder")
def test_a_trial_that_asks_no_model_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A trial whose runs ask no model fails and says so: as samples, as one run, and by a setting."""
    with use_cassette("cassettes/one.jsonl", mode="all"):
        import_module("program").main()
    monkeypatch.setenv("QUIET", "1")
    assert replay("--cassette", "one", "--samples", "2", "--baseline", "0", "--output", "out.json") == 1
    assert "2 of 2 samples failed" in (said := capsys.readouterr().err)
    assert "nothing to judge: no sample of openai:new counts (2 made no call)" in said
    samples = json.loads(Path("out.json").read_text(encoding="utf-8"))["samples"]
    assert [(one["passed"], one["left_out"]) for one in samples] == [(False, "made no call")] * 2
    assert replay("--cassette", "one") == 1
    assert "the candidate was not tried: the command asked no model" in capsys.readouterr().err
    Path("quiet.py").write_text("from agenttape_core import boundary\nboundary('tool', name='look')(len)('x')\n")
    assert run(["replay", "--cassette", "one", "--candidate", "openai:new", "--live", "look", "--", sys.executable,
                "quiet.py"]) == 1  # fmt: skip
    assert "0 replayed, 1 recorded" in (said := capsys.readouterr().err)
    assert "the candidate was not tried: the command asked no model" in said
    monkeypatch.setenv("AGENTTAPE_CANDIDATE", "openai:new")
    assert run(["replay", "--cassette", "one", "--", sys.executable, "program.py"]) == 1


@pytest.fixture
def source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The recording of a request to the server."""
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


def test_a_candidate_may_word_an_answer_otherwise(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A server whose candidate words its answer otherwise passes; the lines that differ are reported, redacted."""
    served = ("replay", "--run", source, "--asgi", "service:app", "--candidate", "openai:new")
    assert run([*served, "--samples", "1", "--baseline", "0", "--to", "kept", "--output", "out.json"]) == 0
    (sample,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["samples"]
    assert (sample["passed"], sample["problem"]) == (True, "")
    before, now = sample["differences"][-2:]
    assert (before.startswith("-old says yes"), now.startswith("+new says yes")) == (True, True)
    assert "first line" in " ".join(sample["differences"][:-2]), "what is the same is context, no difference"
    assert MAIL not in Path("out.json").read_text(encoding="utf-8")
    assert [path.suffix for path in Path("kept").iterdir()] == [".jsonl"]
    assert "+new says yes" in capfd.readouterr().err

    assert run([*served, "--json"]) == 0
    told = capfd.readouterr()
    assert json.loads(told.out)["answered_otherwise"][-1].startswith("+new says yes")
    assert "+new says yes" in told.err


def test_a_server_error_fails(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A status of 500 fails with a candidate, too: as a sample, and as one run."""
    served = ("replay", "--run", source, "--asgi", "service:app", "--candidate", "openai:broken")
    assert run([*served, "--samples", "1", "--baseline", "0", "--output", "out.json"]) == 1
    (sample,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["samples"]
    assert (sample["passed"], sample["differences"][4:6]) == (False, ["-200", "+500"])
    assert run(served) == 1
    assert "+500" in capfd.readouterr().err


def test_a_strict_replay_fails_on_a_difference(
    source: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without anything live, a server that answers otherwise than it was recorded still fails."""
    served = ("replay", "--run", source, "--asgi", "service:app")
    assert run(served) == 0
    monkeypatch.setenv("MORE", " more")
    assert run(served) == 1
    assert "the server answered otherwise than it was recorded" in capfd.readouterr().err
