"""`agenttape replay --run`: which recording, which program, and what is refused before anything runs."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.asgi import TapeInbound
from agenttape_core.cli.app import run

PROGRAM = """
import json
import uuid
from agenttape_core import boundary
from agenttape_core.asgi import TapeInbound
from agenttape_core.cli.app import run

uuid.uuid4()  # what a module draws while it is imported was no part of the run


@boundary("tool")
def look_up(city):
    return f"{city}: sunny {calls.append(city)}"


calls = []


def weather(city):
    return f"{look_up(city)} {len(city)}"


class Said(str):  # as frameworks have classes of texts
    pass


def make():
    return lambda city: {"said": Said(weather(city))}


async def app(scope, receive, send):
    if scope["type"] == "http":
        body = json.loads((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": look_up(**body).encode()})


taped = TapeInbound(app, "runs")
"""


@pytest.fixture
def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run of a function and one of a server, recorded; returns what the function answered and the id of its run."""
    (folder / "program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "program", raising=False)
    import program

    with use_cassette("run", mode="all") as cassette:
        cassette.note_input({"city": "Paris"})
        live = program.weather("Paris")
    taped: TapeInbound = program.taped

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"city": "Rome"}'}

    async def send(_: Any) -> None:
        pass

    async def request() -> None:
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
        await taped(scope, receive, send)
        await taped.written()

    asyncio.run(request())
    monkeypatch.delitem(sys.modules, "program")
    return live, cassette.report.run_id


@pytest.mark.process
def test_runs_begin_again(folder: Path, recorded: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """A function runs again by the id of its run, a server gets its request; the answers are as recorded."""
    live, run_id = recorded
    capfd.readouterr()
    code, told = run(["replay", "--run", run_id, "--app", "program:make"]), capfd.readouterr()
    assert (code, json.loads(told.out)) == (0, {"said": live}), told.err
    (request,) = Path("runs").iterdir()
    code, told = run(["replay", "--run", request.stem, "--asgi", "program:taped"]), capfd.readouterr()
    assert (code, told.out.strip()) == (0, "Rome: sunny None"), told.err
    assert len(list(Path("runs").iterdir())) == 1


def test_what_is_refused(command: Any, recorded: Any) -> None:
    """A source without input, the wrong sort of program and bad options end with what to do, and run nothing."""
    request = next(Path("runs").iterdir())
    app = ("--app", "program:weather")
    cases = [
        (["--run", "weather", *app], 2, "does not hold the input of its run"),
        (["--run", "nowhere", *app], 3, "no such"),
        (["--run", "0123456789abcdef", *app], 3, "no cassette below this folder is the recording of such a run"),
        (["--run", "run"], 2, "--run needs the program, --app module:graph"),
        (["--run", "run", "--asgi", "program:app"], 2, "was begun by a program: --app module:graph"),
        (["--run", request, *app], 2, "was begun by an HTTP request: --asgi module:app"),
        (["--run", "run", *app, "--input", "{"], 2, "--input isn't JSON"),
        (["--run", "run", *app, "--header", "a: b"], 2, "--header is for requests"),
        (["--run", "run", *app, "python"], 2, "expected the words of a command"),
        (["--app", "program:weather"], 2, "expected the words of a command"),
        ([], 2, "expected the words of a command"),
    ]
    for words, code, problem in cases:
        ended = command("replay", *words)
        assert (ended.code, problem in ended.err) == (code, True), (words, ended)
    assert "program" not in sys.modules


def test_the_program_is_named_before_it_runs(command: Any, recorded: Any) -> None:
    """The recording is not touched by a replay that cannot begin."""
    before = Path("cassettes/run.yaml").read_bytes()
    ended = command("replay", "--run", "run", "--app", "program")
    assert (ended.code, Path("cassettes/run.yaml").read_bytes()) == (2, before)
    assert open_cassette("cassettes/run.yaml").header.input == {"city": "Paris"}
