"""Events: what a session decides is told as it happens, and never breaks or changes the run."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError, NetworkBlockedError, UnrecordedCallError
from agenttape_core.guard import exempt_thread
from agenttape_core.lifecycle import sinks

from .world import OlderThread, call, in_threads

CANARY = "c4n4ry"


@boundary("tool")
def look(city: str) -> str:
    """Look up the weather."""
    return f"{city} {CANARY}"


def run(**options: Any) -> list[dict[str, Any]]:
    """Make two calls in a session, and return the events."""
    events: list[dict[str, Any]] = []
    with use_cassette("run", events=events.append, **options):
        look("Paris"), look("Oslo")
    return events


def names(events: list[dict[str, Any]]) -> list[str]:
    """Return the names of events."""
    return [event["event"] for event in events]


def test_recordings_and_replays_are_told_apart() -> None:
    """A recording tells calls as they end as auditEvent, a replay as replayEvent, each under a run id of its own."""
    recorded, replayed = run(mode="once"), run()
    assert names(recorded) == ["session.started", *["call.recorded"] * 2, "session.ended"]
    assert names(replayed) == ["session.started", *["call.replayed"] * 2, "session.ended"]
    assert {event["subject"] for event in recorded} == {"auditEvent"}
    assert {event["subject"] for event in replayed} == {"replayEvent"}
    assert len({event["run_id"] for event in [*recorded, *replayed]}) == 2
    assert [event["seq"] for event in replayed] == [1, 2, 3, 4]
    assert replayed[1]["match_rule"] == "exact"
    assert [replayed[2][key] for key in ("kind", "name", "number")] == ["tool", "look", 2]
    assert replayed[-1]["replayed"] == 2
    assert recorded[1]["duration_ms"] >= 0


def test_nothing_of_requests_and_answers_is_told() -> None:
    """No event holds a word of a request, an answer or a miss."""
    told = json.dumps([run(mode="once"), run()])
    assert CANARY not in told
    assert "Paris" not in told


def test_misses_and_refusals_are_told() -> None:
    """A call that has no recording is told as missed, or as refused where the run lives on."""
    run(mode="once")
    events: list[dict[str, Any]] = []
    with pytest.raises(CassetteMissError), use_cassette("run", events=events.append):
        look("Rome")
    with use_cassette("run", events=events.append, on_miss="return") as session, pytest.raises(UnrecordedCallError):
        call("look", lambda: "never", arguments={"city": "Rome"})
    assert [name for name in names(events) if name.startswith("call.")] == ["call.missed", "call.refused"]
    assert [event["status"] for event in events if event["event"] == "session.ended"] == ["failed", "ended"]
    assert len(session.report.unrecorded) == 1


def test_blocked_connections_are_told() -> None:
    """What the guard refuses in a replay is an event of its own."""
    run(mode="once")
    events: list[dict[str, Any]] = []
    with pytest.raises(NetworkBlockedError), use_cassette("run", events=events.append):
        socket.create_connection(("192.0.2.1", 80))
    assert names(events)[1:] == ["network.blocked", "session.ended"]


@pytest.mark.parametrize("file", ["events/run.jsonl", "events/run.ndjson"])
def test_a_file_gets_all_events_of_all_threads(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are added to a file in the order of their numbers, also from threads; the variable names it, too."""
    monkeypatch.setenv("AGENTTAPE_EVENTS", file)
    monkeypatch.setenv("AGENTTAPE_RUN_ID", "build-417")
    with use_cassette("threads", mode="once") as session:
        in_threads(look, "01234567")
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 11))
    assert {line["run_id"] for line in lines} == {"build-417"} == {session.report.run_id}


def test_a_sink_that_raises_changes_nothing() -> None:
    """Events that a function does not take are dropped and counted, and the run ends as without."""
    last: list[dict[str, Any]] = []

    def broken(event: dict[str, Any]) -> None:
        last.append(event)
        raise OSError("full")

    with use_cassette("run", mode="once", events=broken):
        assert look("Paris") == f"Paris {CANARY}"
    assert (last[-1]["event"], last[-1]["dropped"]) == ("session.ended", 2)


def test_a_function_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that takes its time delays a run no further: it gets all else in another thread, in order."""
    monkeypatch.setattr(sinks, "_DELAY", 0.0)
    got: list[tuple[int, int]] = []
    goes_on, has_all = threading.Event(), threading.Event()

    def slow(event: dict[str, Any]) -> None:
        got.append((event["seq"], threading.get_ident()))
        if len(got) == 2:
            assert goes_on.wait(60)
        if len(got) == 6:
            has_all.set()

    with use_cassette("run", mode="once", events=slow):
        for city in ("Paris", "Rome", "Oslo", "Bonn"):
            look(city)
        goes_on.set()
    assert has_all.wait(60)
    assert [seq for seq, _ in got] == [1, 2, 3, 4, 5, 6]
    assert len({thread for _, thread in got}) == 2


@pytest.mark.parametrize("stuck", [1, 2, 3])
def test_a_function_that_never_returns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stuck: int
) -> None:
    """The run ends as without it, it gets all other events in order, and the one that it keeps is told."""
    monkeypatch.setattr(sinks, "_DELAY", 0.05)
    monkeypatch.setattr(sinks, "_PATIENCE", 0.2)
    got: list[int] = []
    goes_on, has_all = threading.Event(), threading.Event()

    def take(event: dict[str, Any]) -> None:
        got.append(event["seq"])
        if event["event"] == "session.ended":
            has_all.set()
        if event["seq"] == stuck:
            goes_on.wait(60)

    try:
        with use_cassette("run", mode="once", events=take):
            assert look("Paris") == f"Paris {CANARY}"
            look("Oslo")
        assert has_all.wait(60)
        assert got == [1, 2, 3, 4]
        assert "a function that takes events: " in caplog.text
    finally:
        goes_on.set()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_events_of_a_forked_process() -> None:
    """A forked process has no thread for its events, and calls the function itself."""
    run(mode="once")
    reading, writing = os.pipe()
    with use_cassette("run", events=lambda event: os.write(writing, event["event"].encode() + b"\n")):
        child = os.fork()
        if child == 0:
            try:
                look("Paris")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        look("Paris"), look("Oslo")
    os.close(writing)
    with os.fdopen(reading) as told:
        assert told.read().split() == ["session.started", *["call.replayed"] * 3, "session.ended"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_that_nobody_reads() -> None:
    """A pipe without a reader is refused at once, and one whose reader reads nothing drops events."""
    os.mkfifo("pipe.jsonl")
    with (
        pytest.raises(ConfigurationError, match="cannot be written"),
        use_cassette("run", mode="all", events="pipe.jsonl"),
    ):
        pytest.fail("it was opened")
    reader = os.open("pipe.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with use_cassette("run", mode="all", events="pipe.jsonl") as session:
            for number in range(300):
                look(f"city {number}")
    finally:
        os.close(reader)
    assert len(session.report.recorded) == 300


def test_events_in_a_coroutine() -> None:
    """A session of a coroutine tells the same events."""

    async def program() -> list[str]:
        events: list[dict[str, Any]] = []
        async with use_cassette("run", mode="once", events=events.append):
            await asyncio.to_thread(look, "Paris")
        return names(events)

    assert asyncio.run(program()) == ["session.started", "call.recorded", "session.ended"]


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ("events.txt", "ends with .jsonl"),
        ("kafka://127.0.0.1", "no sink for kafka://"),
        ("run.jsonl/events.jsonl", "cannot be written"),
        ("nats://127.0.0.1:1", "does not answer"),
        ("nats://", "expected a host"),
    ],
)
def test_a_sink_that_is_not_there_is_an_error_at_once(sink: str, problem: str) -> None:
    """A sink that cannot be opened is an error before anything is executed, and leaves nothing behind."""
    if sink.startswith("nats"):
        pytest.importorskip("nats")
    Path("run.jsonl").touch()
    with pytest.raises(ConfigurationError, match=problem), use_cassette("run", mode="once", events=sink):
        look("Paris")
    assert [path.name for path in Path().rglob("*") if path.is_file()] == ["run.jsonl"]


@pytest.fixture
def nats_server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A NATS server on this machine: its URL and its process."""
    pytest.importorskip("nats")
    program = shutil.which("nats-server")
    if program is None:
        pytest.skip("there is no nats-server")
    command = [program, "--addr", "127.0.0.1", "--port", "-1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            listening = next(line for line in server.stderr if "client connections" in line)
            yield f"nats://{listening.split()[-1]}", server
        finally:
            server.kill()


async def subscribed(url: str, program: Any, ends: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """Run a program in a thread, and return what a subscriber of everything has got, with the subjects."""
    import nats

    got: list[tuple[str, dict[str, Any]]] = []
    all_there = asyncio.Event()

    async def take(message: Any) -> None:
        got.append((message.subject, json.loads(message.data)))
        if [event["event"] for _, event in got].count("session.ended") == ends:
            all_there.set()

    client = await nats.connect(url)
    for subject in ("replayEvent", "auditEvent"):
        await client.subscribe(subject, cb=take)
    await client.flush()
    await asyncio.to_thread(program)
    await asyncio.wait_for(all_there.wait(), 30)
    await client.close()
    return got


@pytest.mark.process
def test_events_reach_a_nats_server(nats_server: tuple[str, subprocess.Popen[str]], older_thread: OlderThread) -> None:
    """All events of a replay come on replayEvent in their order, and none on auditEvent; a recording the other way."""
    url, _ = nats_server
    older_thread.result(exempt_thread)  # a replay lets it receive on connections that are older than itself

    def program(mode: str) -> None:
        with use_cassette("run", mode=mode, events=url):
            look("Paris"), look("Oslo")

    for mode, subject in (("once", "auditEvent"), ("none", "replayEvent")):
        got = older_thread.result(lambda mode=mode: asyncio.run(subscribed(url, lambda: program(mode))))  # type: ignore[misc]
        assert {name for name, _ in got} == {subject}
        assert [event["seq"] for _, event in got] == [1, 2, 3, 4]


@pytest.mark.process
def test_a_session_inside_a_replay_has_events_too(
    nats_server: tuple[str, subprocess.Popen[str]], older_thread: OlderThread
) -> None:
    """A session that is opened inside a replay reaches its server: no guard looks at the thread of its events."""
    url, _ = nats_server
    older_thread.result(exempt_thread)
    run(mode="once")

    def program() -> None:
        with use_cassette("run", events=url, on_unused="ignore") as outer:
            look("Paris")
            with use_cassette("inner", mode="once", events=url):
                look("Rome")
        assert not outer.report.blocked

    got = older_thread.result(lambda: asyncio.run(subscribed(url, program, ends=2)))
    calls = sorted(name for name in names([event for _, event in got]) if name.startswith("call"))
    assert calls == ["call.recorded", "call.replayed"]


@pytest.mark.process
def test_a_server_that_dies_changes_nothing(
    nats_server: tuple[str, subprocess.Popen[str]], older_thread: OlderThread
) -> None:
    """The server is killed in the middle of a replay: the run ends as without it, and nothing hangs."""
    url, server = nats_server
    older_thread.result(exempt_thread)  # a replay lets it kill processes that are older than itself
    run(mode="once")
    with use_cassette("run", events=url) as session:
        assert look("Paris") == f"Paris {CANARY}"
        older_thread.result(server.kill)
        older_thread.result(lambda: server.wait(timeout=30))
        assert look("Oslo") == f"Oslo {CANARY}"
    assert len(session.report.replayed) == 2
    assert not session.report.blocked
