"""Events of commands: a session that opens in the midst of an import reaches the sink of its events."""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import run

from ....kit.serving import serving

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

INNER = """
import program
from agenttape_core import use_cassette

with use_cassette("inner", mode="all", events=EVENTS):
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


Sink = tuple[str, Callable[[], list[str]]]
"""The URL of a sink, and what names the events so far."""


def nats(_: Path) -> Iterator[Sink]:
    """As much of a NATS server as a client that publishes needs."""
    pytest.importorskip("nats")
    names: list[str] = []

    class Nats(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            """Greet a client, answer its pings, and keep what it publishes."""
            info = {"server_id": "x", "version": "2.9.10", "proto": 1, "max_payload": 1_000_000, "headers": True}
            self.wfile.write(f"INFO {json.dumps(info)}\r\n".encode())
            for line in self.rfile:
                verb, *rest = line.decode().split()
                if verb == "PING":
                    self.wfile.write(b"PONG\r\n")
                elif verb == "PUB":
                    names.append(json.loads(self.rfile.read(int(rest[-1]) + 2))["event"])

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Nats)) as server:
        server.daemon_threads = True
        yield f"nats://127.0.0.1:{server.server_address[1]}", lambda: names


def third_party(folder: Path) -> Iterator[Sink]:
    """A sink that another distribution brings."""
    metadata = folder / "slow_sink-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-sink\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[agenttape.sinks]\nslow = slow_sink:Sink\n", encoding="utf-8")
    (folder / "slow_sink.py").write_text(SINK, encoding="utf-8")
    (folder / "heavy.py").write_text(HEAVY, encoding="utf-8")
    told = folder / "told.jsonl"
    yield "slow://any", lambda: [json.loads(line)["event"] for line in told.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(params=[third_party, pytest.param(nats, marks=pytest.mark.night)])
def sink(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    """Each sink in turn, as the setting of events, beside the programs."""
    with contextmanager(request.param)(folder) as (url, told):
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        (folder / "inner.py").write_text(INNER.replace("EVENTS", repr(url)), encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "program", raising=False)
        yield url, told


@pytest.mark.usefixtures("forked_functions")
def test_events_of_commands(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded command, its replay, and a session of a module that is being imported pass their events on."""
    url, told = sink
    monkeypatch.setenv("AGENTTAPE_EVENTS", url)
    wanted = ["session.started", "call.recorded", "session.ended"]
    assert run(["record", "--cassette", "app", "--", sys.executable, "program.py"]) == 0
    assert told() == wanted
    wanted += ["session.started", "call.replayed", "session.ended"]
    assert run(["replay", "--cassette", "app", "--", sys.executable, "program.py"]) == 0
    assert told() == wanted
    monkeypatch.delenv("AGENTTAPE_EVENTS")
    assert run(["record", "--cassette", "outer", "--", sys.executable, "-c", "import inner"]) == 0
    assert told() == [*wanted, "session.started", "call.recorded", "session.ended"]


def test_events_of_a_run_that_begins_again(sink: Sink, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """`agenttape replay --run` passes its events on: its session opens in the midst of an import."""
    url, told = sink
    import program  # type: ignore[import-not-found]

    with use_cassette("run", mode="all") as cassette:
        cassette.note_input({"city": "Paris"})
        program.weather("Paris")
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    monkeypatch.setenv("AGENTTAPE_EVENTS", url)
    assert run(["replay", "--run", "run", "--app", "program:weather"]) == 0
    assert told() == ["session.started", "call.replayed", "session.ended"]
