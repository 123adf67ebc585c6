"""The demonstration tells its story, proves it, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .conftest import EXAMPLES

pytestmark = pytest.mark.process

PROVEN = [
    "model calls that the server answered",
    "postcards sent (lines in outbox.txt)",
    "model + tool calls on the cassette",
    "live model calls",
    "sockets connected",
    "postcards sent (outbox.txt is untouched)",
    "model and tool calls executed",
    "model and tool calls replayed from the cassette",
    "recorded calls never asked for",
    "messages of invoke(), with their ids",
    "chunks of stream(), with their ids",
    "events of astream_events(), in order",
    "answers, word for word",
    "recording, words and command are named",
]


def demo(temporary: Path, **variables: str) -> subprocess.Popen[str]:
    """The demonstration, started in a process of its own with a folder for temporary files."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES), "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    environment.pop("PYTEST_CURRENT_TEST", None)  # else the command to run would be this test's
    return subprocess.Popen(
        [sys.executable, "-m", "weather_agent.demo"],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demonstration prints, also for a reader who has set a mode."""
    temporary = tmp_path_factory.mktemp("demo")
    with demo(temporary, AGENTTAPE_MODE="all") as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, ""), output + errors
    assert list(temporary.iterdir()) == []
    return output


def test_all_steps_are_told_in_order(told: str) -> None:
    """It records, shows the cassette, replays, proves, and breaks it."""
    steps = re.findall(r"^\[(\d)\] ([A-Z ]+?)  ", told, re.MULTILINE)
    assert steps == [("1", "RECORD"), ("2", "THE CASSETTE"), ("3", "REPLAY"), ("4", "PROOF"), ("5", "EDIT THE PROMPT")]
    assert "ALL PROOFS HOLD" in told


def test_each_proof_holds(told: str) -> None:
    """Each proof is printed with its value and holds, and there is none that this file does not know."""
    found = {label: re.findall(rf"^    {re.escape(label)} .* {{3}}(\w+)$", told, re.MULTILINE) for label in PROVEN}
    assert found == {label: ["ok"] for label in PROVEN}
    assert len(re.findall(r" {3}(?:ok|WRONG)$", told, re.MULTILINE)) == len(PROVEN)


def test_excerpt_shows_what_was_recorded(told: str) -> None:
    """The excerpt is a whole tool call, and what is new in the model's next request."""
    (excerpt,) = re.findall(r"\[2\] THE CASSETTE.*?\n((?:    \| .*\n)+)", told)
    lines = [line.removeprefix("    | ") for line in excerpt.splitlines()]
    assert {"interaction: 2", "kind: tool", "name: get_weather", "    city: Paris"} <= set(lines)
    assert {"interaction: 3", "kind: chat", "continues: 1", "  - role: tool"} <= set(lines)
    assert re.search(r'value: "Paris: sunny, \d+ degrees\."', excerpt)


def test_both_times_are_told(told: str) -> None:
    """The replay does not wait for the slow tool: it is several times as fast as the recording."""
    ((recorded, replayed),) = re.findall(r"^    time +([\d.]+) s / ([\d.]+) s   \d+ times as fast$", told, re.MULTILINE)
    assert float(recorded) > 3 * 0.8
    assert float(replayed) < float(recorded) / 2


def test_miss_is_explained(told: str) -> None:
    """The edited prompt gives the nearest recording, the differing words, and the command to run."""
    (miss,) = re.findall(r"\[5\] EDIT THE PROMPT.*?\n((?:    \| .*\n)+)", told)
    assert "ChatOpenAI was called with a request" in miss
    assert "closest   call 1" in miss
    assert "weather in Paris?" in miss
    assert "weather in Oslo?" in miss
    assert "AGENTTAPE_MODE=record python" in miss
    assert "cassettes/weather.yaml (21 calls" in miss


def test_wrong_replay_fails_and_shows_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proof that does not hold is shown with its first difference, and the exit code is 1."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for name in [name for name in os.environ if name.startswith("AGENTTAPE_")]:
        monkeypatch.delenv(name)  # as the story does for good
    story, evidence = import_module("weather_agent.demo"), import_module("weather_agent.evidence")
    runs: list[Any] = []

    def perform(agent: Any, prompt: str) -> Any:
        run = evidence.perform(agent, prompt)
        if runs:
            run.messages[0]["content"] = "something else"
        runs.append(run)
        return run

    monkeypatch.setattr(story, "perform", perform)
    monkeypatch.setattr(story, "ConnectionCounter", lambda: SimpleNamespace(count=0))  # its audit hook would stay
    monkeypatch.setattr(story, "build_agent", partial(story.build_agent, thinking_s=0))
    code = story.main()
    output, errors = capsys.readouterr()
    assert (code, errors) == (1, "")
    assert re.search(r"messages of invoke\(\), with their ids .* WRONG$", output, re.MULTILINE)
    assert "first difference at [0].content" in output
    assert "replayed: 'something else'" in output
    assert "FAILED: messages of invoke(), with their ids" in output
    assert "ALL PROOFS HOLD" not in output


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.night
def test_interrupted_recording_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while it records ends the process and its server at once; no cassette, journal or folder stays."""
    with demo(tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = ""
        while "[1] RECORD" not in told:
            told += process.stdout.readline()
        while not list(tmp_path.glob("*/cassettes/.*.journal")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert "Interrupted" in output
    assert "[2]" not in output
    assert list(tmp_path.iterdir()) == []
