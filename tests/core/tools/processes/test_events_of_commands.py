"""Events of commands: a session that opens in the midst of an import reaches the sink of its events."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import run

pytestmark = pytest.mark.process

PROGRAM = """
from agenttape_core import boundary


@boundary("tool")
def look_up(city):
    return f"{city}: sunny"


def weather(city):
    return look_up(city)


if __name__ == "__main__":
    weather("Paris")
"""

URL = "slow://any"
INNER = f"""
import program
from agenttape_core import use_cassette

with use_cassette("inner", mode="all", events={URL!r}):
    program.weather("Rome")
"""

SINK = '''
"""A sink that imports what it needs in its thread, and is ready when that is there."""
import threading


class Sink:
    dropped = 0

    def __init__(self, url):
        self.events, self.ready = [], threading.Event()
        threading.Thread(target=self.work, daemon=True).start()
        if not self.ready.wait(10):
            raise RuntimeError("the sink's own import has not ended")

    def work(self):
        import heavy
        self.ready.set()

    def put(self, event):
        import json
        with open("told.jsonl", "a") as file:
            file.write(json.dumps(event) + "\\n")

    def close(self):
        pass
'''
HEAVY = "import xml.dom.minidom, wave, mailbox  # nothing else imports these\n"


@pytest.fixture
def told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A sink that another distribution brings, beside the programs; returns what names the events so far."""
    metadata = folder / "slow_sink-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-sink\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[agenttape.sinks]\nslow = slow_sink:Sink\n", encoding="utf-8")
    for name, text in {"slow_sink": SINK, "heavy": HEAVY, "program": PROGRAM, "inner": INNER}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "program", raising=False)
    file = folder / "told.jsonl"
    return lambda: [json.loads(line)["event"] for line in file.read_text(encoding="utf-8").splitlines()]


def test_events_of_commands(told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded command, its replay, and a session of a module that is being imported pass their events on."""
    monkeypatch.setenv("AGENTTAPE_EVENTS", URL)
    wanted = ["session.started", "call.recorded", "session.ended"]
    assert run(["record", "--cassette", "app", "--", sys.executable, "program.py"]) == 0
    assert told() == wanted
    wanted += ["session.started", "call.replayed", "session.ended"]
    assert run(["replay", "--cassette", "app", "--", sys.executable, "program.py"]) == 0
    assert told() == wanted
    monkeypatch.delenv("AGENTTAPE_EVENTS")
    assert run(["record", "--cassette", "outer", "--", sys.executable, "-c", "import inner"]) == 0
    assert told() == [*wanted, "session.started", "call.recorded", "session.ended"]


def test_events_of_a_run_that_begins_again(
    told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """`agenttape replay --run` passes its events on: its session opens in the midst of an import."""
    import program  # type: ignore[import-not-found]

    with use_cassette("run", mode="all") as cassette:
        cassette.note_input({"city": "Paris"})
        program.weather("Paris")
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    monkeypatch.setenv("AGENTTAPE_EVENTS", URL)
    assert run(["replay", "--run", "run", "--app", "program:weather"]) == 0
    assert told() == ["session.started", "call.replayed", "session.ended"]
