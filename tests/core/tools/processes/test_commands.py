"""`agenttape record` and `agenttape replay` with one process: a script, a function, a framework's agent."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest
from tests.kit.collector import Receiver

from agenttape_core import open_cassette, use_cassette

from .conftest import Ended, cassettes

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("forked_python", "forked_functions")]

Agenttape = Callable[..., Ended]
Program = Callable[[str, str], str]

ASK = """
import random, sys, tempfile, time, uuid
from tools import look_up

print(*(look_up(city) for city in sys.argv[1:]), uuid.uuid4(), random.random(), time.time())
with tempfile.NamedTemporaryFile() as file:
    pass
"""

LANGCHAIN = """
import asyncio, os, uuid
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

@tool
def weather(city: str) -> str:
    "Tell the weather."
    return f"{city}: {os.getpid()}"

def model():
    return GenericFakeChatModel(messages=iter([AIMessage(f"Hello from {os.getpid()}.")]))

async def node(state):
    return {"messages": [await model().ainvoke(state["messages"])]}

print(model().invoke(f"Hi, this is {uuid.uuid4()}.").text, weather.invoke({"city": "Paris"}))
graph = StateGraph(MessagesState).add_node("model", node).add_edge(START, "model").compile()
messages = asyncio.run(graph.ainvoke({"messages": [("user", "Hi.")]}))["messages"]
print(messages[-1].content, messages[-1].id)
"""


@pytest.mark.parametrize(("text", "calls"), [(ASK, 2), (LANGCHAIN, 3)], ids=["functions", "langchain and langgraph"])
def test_script(folder: Path, program: Program, agenttape: Agenttape, text: str, calls: int) -> None:
    """A script that knows nothing of AgentTape is recorded and traced, and its replay prints the same to the letter."""
    words = ("--cassette", "run", "--", sys.executable, program("agent.py", text), "Paris", "Rome")
    recorded = agenttape("record", "--trace", "trace.jsonl", *words)
    assert (recorded.code, cassettes(folder)) == (0, ["run.yaml"])
    assert f"cassettes/run.yaml: 0 replayed, {calls} recorded" in recorded.err
    traced = [json.loads(line) for line in (folder / "trace.jsonl").read_text("utf-8").splitlines()]
    assert [line["response"] in recorded.out for line in traced] == [True] * {ASK: 0, LANGCHAIN: 2}[text]
    steps = [step.address for step in open_cassette(folder / "cassettes" / "run.yaml").steps()]
    assert ("LangGraph/model@1" in steps) is ("langgraph" in text)  # though it was imported after the session began
    replayed = agenttape("replay", *words)
    assert (replayed.code, replayed.out) == (0, recorded.out)
    assert f"cassettes/run.yaml: {calls} replayed, 0 recorded" in replayed.err
    told = "side effects skipped: weather (calls nothing that is recorded)"
    assert (told in replayed.err) is ("def weather" in text)


def test_what_was_real(program: Program, agenttape: Agenttape) -> None:
    """A replay names what was real in a line of its own, which is none about the recorded order."""
    drawing = f"{ASK}\nimport secrets\nsecrets.token_hex()\n"
    words = ("--cassette", "run", "--", "python", program("agent.py", drawing), "Paris")
    assert agenttape("record", *words).code == 0
    replayed = agenttape("replay", *words)
    assert replayed.code == 0
    assert "not replayed (real clock or random numbers): what `secrets`, " in replayed.err
    assert "could not be imposed" not in replayed.err


@pytest.mark.parametrize(
    ("name", "shown"), [("agents:Desk.ask", "Paris: "), ("agents.py:stream", "Paris: "), ("agents:main", "[] Paris: ")]
)
def test_function(folder: Path, program: Program, agenttape: Agenttape, name: str, shown: str) -> None:
    """A function is called in a process of its own, without arguments on its command line, and names its cassette."""
    program(
        "agents.py",
        """
        import argparse
        from tools import look_up

        class Desk:
            @staticmethod
            def ask():
                print(look_up("Paris"))

        async def stream():
            print(look_up("Paris"))
            yield 1

        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("cities", nargs="*")
            print(parser.parse_args().cities, look_up("Paris"))
        """,
    )
    recorded = agenttape("record", name)
    assert (recorded.code, recorded.out.startswith(shown)) == (0, True)
    assert cassettes(folder) == [f"{name.replace('.py:', '.').replace(':', '.')}.yaml"]
    assert agenttape("replay", name)[:2] == recorded[:2]


def test_spans_that_a_program_sends(program: Program, agenttape: Agenttape, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector in `allow_hosts` gets a program's own spans; a replay adds its id to their resource attributes."""
    traced = program(
        "traced.py",
        """
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from tools import look_up

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        for city in ("Paris", "Oslo"):
            with provider.get_tracer("desk").start_as_current_span(city):
                look_up(city)
        provider.shutdown()
        """,
    )
    with Receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("AGENTTAPE_ALLOW_HOSTS", "127.0.0.1")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=desk")
        monkeypatch.setenv("AGENTTAPE_EVENTS", "events.jsonl")
        found = []
        for subcommand in ("record", "replay"):
            ended = agenttape(subcommand, "--cassette", "run", "--", "python", traced)
            assert ended.code == 0, ended.err
            assert set(collector.resources("service.name")) == {"desk"}
            found.append(([span.name for span in collector.spans], collector.resources("replay_run_id")))
            collector.requests.clear()
    (recorded, none), (replayed, ids) = found
    assert (recorded, none, replayed) == (["Paris", "Oslo"], [""], ["Paris", "Oslo"])
    assert ids == [json.loads(Path("events.jsonl").read_text().splitlines()[-1])["run_id"]]


def test_miss(program: Program, agenttape: Agenttape) -> None:
    """A request that was not recorded ends with 1, is explained once, and the explanation names the commands."""
    script = program("ask.py", ASK)
    assert agenttape("record", "--", "python", script, "Paris").code == 0
    missed = agenttape("replay", "--", "python", script, "Oslo")
    assert missed.code == 1
    for part in (
        "look_up was called with a request",
        "- Paris",
        "+ Oslo",
        "agenttape record --cassette ask -- python ask.py Oslo",
        "agenttape record --mode update --cassette ask -- python ask.py Oslo",
    ):
        assert missed.err.count(part) == 1
    assert "the program was stopped at ask.py:5\n" in missed.err
    assert "Traceback" not in missed.err


def test_proof(program: Program, agenttape: Agenttape) -> None:
    """A recording is replayed at once on request; a difference ends with 1, without a remedy that would not help."""
    script = program(
        "ask.py",
        """
        import os
        from tools import look_up
        print(look_up("Paris"))
        if os.path.exists("once"):
            look_up("Oslo")
            os.remove("once")
        """,
    )
    Path("once").touch()
    first = agenttape("record", "--check-replay", "--", "python", script)
    assert (first.code, first.out.count("Paris")) == (1, 1)
    assert "replay check: cassettes/ask.yaml: 1 replayed, 0 recorded\n" in first.err
    assert (
        "the recording does not replay:\nagenttape: the run didn't make 1 recorded call in cassettes/ask.yaml"
        in first.err
    )
    assert "agenttape record" not in first.err
    proved = agenttape("record", "--check-replay", "--json", "--live", "look_up", "--", "python", script)
    assert (proved.code, proved.json["replay_check"]["differences"]) == (0, [])
    assert [each["replayed"] for each in proved.json["replay_check"]["processes"]] == [1]


def test_swallowed_miss(program: Program, agenttape: Agenttape) -> None:
    """A program that eats a miss and goes on ends with 1 all the same."""
    script = program(
        "ask.py",
        """
        import sys
        from tools import look_up
        try:
            look_up(sys.argv[1])
        except BaseException:
            print("never mind")
        """,
    )
    assert agenttape("record", "--", "python", script, "Paris").code == 0
    missed = agenttape("replay", "--", "python", script, "Oslo")
    assert (missed.code, missed.out) == (1, "never mind\n")
    assert "+ Oslo" in missed.err


def test_unused(program: Program, agenttape: Agenttape) -> None:
    """A recording that nobody asks for is a finding, which can be asked to be none."""
    script = program("ask.py", ASK)
    assert agenttape("record", "--", "python", script, "Paris", "Rome").code == 0
    replay = ("--", "python", script, "Paris")
    assert "in cassettes/ask.yaml. Not made:" in (left := agenttape("replay", *replay)).err
    assert left.code == 1
    assert agenttape("replay", "--on-unused", "ignore", *replay).code == 0
    for how in ("ignore", "warn"):  # they excuse some recordings, and not all
        idle = agenttape("replay", "--on-unused", how, "--", "python", script)
        assert (idle.code, f"--on-unused {how} excuses some" in idle.err) == (1, True)
        assert "none of 2 recorded calls was made, so this replay shows nothing" in idle.err


def test_blocked(program: Program, agenttape: Agenttape) -> None:
    """A connection is refused and a finding, also where no session was needed before, and unless it is allowed."""
    script = program(
        "reach.py",
        """
        import sys, socket
        if sys.argv[1:]:
            from tools import look_up
            look_up("Paris")
        else:
            try:
                socket.create_connection(("127.0.0.1", 9), timeout=5)
            except BaseException as error:
                print(type(error).__name__)
        """,
    )
    assert agenttape("record", "--", "python", script, "call").code == 0
    blocked = agenttape("replay", "--", "python", script)
    assert (blocked.code, blocked.out) == (1, "NetworkBlockedError\n")
    assert "tried to connect to 127.0.0.1:9" in blocked.err
    allowed = agenttape("replay", "--allow-hosts", "loopback", "--on-unused", "ignore", "--", "python", script)
    assert allowed.out == "ConnectionRefusedError\n"
    assert "blocked" not in allowed.err


def test_nothing_gets_out_while_a_session_opens(program: Program, agenttape: Agenttape) -> None:
    """A thread that connects all the time is refused before, while and after the session is opened."""
    script = program(
        "busy.py",
        """
        import sys, threading, socket
        refused, over = [], threading.Event()

        def connect():
            while not over.is_set():
                try:
                    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).close()
                except BaseException as error:
                    refused.append(type(error).__name__)

        thread = threading.Thread(target=connect)
        if sys.argv[1] != "0":
            thread.start()
            while not refused:
                pass
        from tools import look_up
        look_up("Paris")
        over.set()
        if sys.argv[1] != "0":
            thread.join()
            print(*set(refused))
        """,
    )
    assert agenttape("record", "--", sys.executable, script, "0").code == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        replayed = agenttape("replay", "--", sys.executable, script, str(server.getsockname()[1]))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (replayed.code, replayed.out) == (1, "NetworkBlockedError\n")


def test_failing_command(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """The exit code of the command is that of a recording and of a replay, and what failed replaces nothing."""
    script = program("ask.py", ASK + "sys.exit(len(sys.argv) - 2)\n")
    words = ("--", "python", script, "Paris", *["Rome"] * 5)
    assert (agenttape("record", *words).code, cassettes(folder)) == (5, ["ask.yaml"])
    good = (folder / "cassettes" / "ask.yaml").read_text()
    assert agenttape("replay", *words).code == 5
    again = agenttape("record", *words)
    assert (again.code, cassettes(folder)) == (5, ["ask.recovered.yaml", "ask.yaml"])
    assert "so cassettes/ask.yaml is unchanged; the recording is in cassettes/ask.recovered.yaml" in again.err
    assert (folder / "cassettes" / "ask.yaml").read_text() == good
    assert agenttape("record", "--on-error", "keep", *words).code == 5
    assert (folder / "cassettes" / "ask.yaml").read_text() != good


def test_no_cassette(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """Without a cassette, or with a broken one, nothing is run, and the command ends with 3."""
    script = program("ask.py", ASK)
    missing = agenttape("replay", "--", "python", script, "Paris")
    assert (missing.code, missing.out) == (3, "")
    assert "record it (calls the real model):  agenttape record --cassette ask -- python ask.py Paris" in missing.err
    (folder / "cassettes").mkdir()
    (folder / "cassettes" / "ask.yaml").write_text("agenttape: 1\nname: ask\n")
    broken = agenttape("replay", "--", "python", script, "Paris")
    assert (broken.code, broken.out) == (3, "")


def test_broken_cassette_is_recorded_anew(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """What no replay can read is replaced by a new recording, and kept beside it; by no recording that failed."""
    words = ["--", "python", program("ask.py", f"{ASK}sys.exit('fails' in sys.argv)\n")]
    path = folder / "cassettes" / "ask.yaml"
    path.parent.mkdir()
    path.write_text("cut off")
    assert agenttape("record", *words, "fails").code == 1
    assert path.read_text() == "cut off"
    recorded = agenttape("record", *words, "Paris")
    assert recorded.code == 0
    assert "agenttape: cassettes/ask.yaml could not be read; the old file is kept as ask.yaml.broken" in recorded.err
    assert path.with_name("ask.yaml.broken").read_text() == "cut off"
    assert agenttape("replay", *words, "Paris").out == recorded.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record"], "Missing argument"),
        (["record", "no-such-command"], "there is no command no-such-command"),
        (["record", "--", "python", "-I", "ask.py"], "the option -I keeps Python from importing"),
        (["record", "no_such_file.py:ask"], "there is no file no_such_file.py"),
        (["record", "tools:nothing"], "tools:nothing is not a function"),
        (["record", "--mode", "none", "tools:look_up"], "'none' is not one of"),
        (["record", "--freeze", "moon", "tools:look_up"], "moon"),
        (["record", "--cassette", "s3://bucket/a.yaml", "tools:look_up"], "expected a cassette in a local folder"),
        (["replay", "--match-on", "luck", "tools:look_up"], "luck"),
    ],
)
def test_usage(folder: Path, agenttape: Agenttape, words: list[str], said: str) -> None:
    """A command that is wrong ends with 2, says what is, and leaves nothing."""
    ended = agenttape(*words)
    assert (ended.code, cassettes(folder)) == (2, [])
    assert said in ended.err


def test_json(program: Program, agenttape: Agenttape) -> None:
    """With --json the standard output is the summary, and what the command prints goes to the standard error."""
    script = program("ask.py", ASK)
    recorded = agenttape("record", "--json", "--", "python", script, "Paris")
    assert (
        recorded.json["processes"][0] | {"recorded": 1, "cassette": "cassettes/ask.yaml"}
        == recorded.json["processes"][0]
    )
    assert (recorded.json["code"], recorded.json["written"]) == (0, ["cassettes/ask.yaml"])
    assert "Paris: " in recorded.err
    missed = agenttape("replay", "--json", "--", "python", script, "Oslo").json
    assert (missed["exit_code"], missed["code"], len(missed["processes"][0]["missed"])) == (1, 1, 1)
    assert "+ Oslo" in missed["failures"][0]


def test_modes(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """`once` replays what is there, `add` adds to it, and `all` records anew."""
    script = program("ask.py", ASK)
    first = agenttape("record", "--mode", "once", "--", "python", script, "Paris")
    assert agenttape("record", "--mode", "once", "--", "python", script, "Paris").out == first.out
    assert agenttape("record", "--mode", "once", "--", "python", script, "Rome").code == 1
    added = agenttape("record", "--mode", "new_episodes", "--", "python", script, "Paris", "Rome")
    assert added.out.split()[1] == first.out.split()[1]
    assert [entry.address for entry in open_cassette(folder / "cassettes" / "ask.yaml").entries] == [
        "look_up",
        "look_up#2",
    ]
    assert agenttape("record", "--", "python", script, "Paris").out.split()[1] != first.out.split()[1]
    assert len(open_cassette(folder / "cassettes" / "ask.yaml").entries) == 1


def test_live(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A replay with something live writes what happened beside the cassette, which it leaves as it is."""
    script = program("ask.py", ASK)
    recorded = agenttape("record", "--", "python", script, "Paris")
    good = (folder / "cassettes" / "ask.yaml").read_text()
    live = agenttape("replay", "--live", "tool", "--", "python", script, "Paris")
    assert (live.code, live.out.split()[1] == recorded.out.split()[1]) == (0, False)
    assert cassettes(folder) == ["ask.derived.yaml", "ask.yaml"]
    assert open_cassette(folder / "cassettes" / "ask.derived.yaml").header.derived_from == "ask.yaml"
    assert (folder / "cassettes" / "ask.yaml").read_text() == good


def test_nested_session(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A program's own session takes its calls, only replays in a replay, and fails it where the failure is caught."""
    script = program(
        "ask.py",
        """
        from agenttape_core import use_cassette
        from tools import look_up
        print(look_up("outside"))
        for _ in range(2):
            try:
                with use_cassette("inner", mode="once"):
                    print(look_up("inside"))
            except Exception:
                print("never mind")
        """,
    )
    recorded = agenttape("record", "--", "python", script)
    assert cassettes(folder) == ["ask.yaml", "inner.yaml"]
    assert agenttape("replay", "--", "python", script)[:2] == recorded[:2]
    (folder / "cassettes" / "inner.yaml").unlink()
    caught = agenttape("replay", "--", "python", script)
    assert (caught.code, caught.out.splitlines()[1:]) == (1, ["never mind"] * 2)
    assert "No cassette yet: " in caught.err
    assert "  and so did 1 other block of the command\n" in caught.err
    assert cassettes(folder) == ["ask.yaml"]


def test_by_a_test(folder: Path, program: Program, agenttape: Agenttape, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command has recorded, a session of a test replays: it is one format."""
    assert agenttape("record", "--", "python", program("ask.py", ASK), "Paris").code == 0
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "tools", raising=False)
    with use_cassette("ask") as session:
        import_module("tools").look_up("Paris")
    del sys.modules["tools"]
    assert str(session.report) == "1 replayed, 0 recorded"


def test_nothing_to_record(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A command that asks for nothing leaves nothing, and does not take away what is there."""
    words = ("--cassette", "ask", "--", "python")
    assert agenttape("record", *words, program("ask.py", ASK), "Paris").code == 0
    nothing = agenttape("record", *words, program("other.py", "print('hello')"))
    assert (nothing.code, nothing.out, cassettes(folder)) == (0, "hello\n", ["ask.yaml"])
    assert "none of its Python processes made a call that can be recorded" in nothing.err


def test_sessions_of_the_program(folder: Path, program: Program, agenttape: Agenttape) -> None:
    """A command whose calls are all in sessions of its own is recorded and replayed, and it is said where they are."""
    own = """
        from agenttape_core import use_cassette
        from tools import look_up
        with use_cassette("own", mode="once"):
            print(look_up("Paris"))
    """
    words = ("--cassette", "ask", "--", "python", program("own.py", own))
    recorded = agenttape("record", *words)
    replayed = agenttape("replay", *words)
    assert (replayed.code, replayed.out, cassettes(folder)) == (0, recorded.out, ["ask.yaml", "own.yaml"])
    told = "all its calls were made in sessions that it opens itself: cassettes/own.yaml"
    assert (told in recorded.err, told in replayed.err) == (True, True)


def test_sitecustomize(folder: Path, program: Program, agenttape: Agenttape, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own `sitecustomize` runs as it would without AgentTape, and nothing of ours is left on the path."""
    program("sitecustomize.py", "import sys\nsys.mine = 42\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    script = program(
        "ask.py",
        """
        import sitecustomize, sys
        from tools import look_up
        print(sys.mine, sitecustomize.__file__, any("startup" in entry for entry in sys.path))
        look_up("Paris")
        """,
    )
    ended = agenttape("record", "--", sys.executable, script)
    assert (ended.out, cassettes(folder)) == (f"42 {folder / 'sitecustomize.py'} False\n", ["ask.yaml"])


def test_http_clients(agenttape: Agenttape, program: Program, folder: Path) -> None:
    """With `--http`, the clients that a command imports are recorded; the replay needs no option and no service."""
    clients = dedent("""
        import asyncio, sys, threading
        from http.server import BaseHTTPRequestHandler, HTTPServer

        class Counting(BaseHTTPRequestHandler):
            answers = 0
            def do_GET(self):
                Counting.answers += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"answer %d" % Counting.answers)
            def log_message(self, *_):
                pass

        url = "http://127.0.0.1:" + open("port").read()
        if sys.argv[1:] == ["--serve"]:
            server = HTTPServer(("127.0.0.1", int(url.rpartition(":")[2])), Counting)
            threading.Thread(target=server.serve_forever, daemon=True).start()

        import urllib.request
        print(urllib.request.urlopen(url).read().decode())

        def with_requests():
            import requests
            return requests.get(url).text

        async def with_aiohttp():
            import aiohttp
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                return await response.text()

        print(with_requests(), asyncio.run(with_aiohttp()))
    """)

    with socket.create_server(("127.0.0.1", 0)) as server:
        (folder / "port").write_text(str(server.getsockname()[1]), encoding="utf-8")
    name = program("ask.py", clients)
    recorded = agenttape("record", "--http", "--cassette", "c", "--", "python", name, "--serve")
    assert (recorded.code, recorded.out) == (0, "answer 1\nanswer 2 answer 3\n"), recorded.err
    replayed = agenttape("replay", "--cassette", "c", "--", "python", name)
    assert (replayed.code, replayed.out) == (0, recorded.out), replayed.err
    assert agenttape("replay", "--no-http", "--cassette", "c", "--", "python", name).code == 1


def test_a_recording_that_misses_its_framework_fails(agenttape: Agenttape, program: Program, folder: Path) -> None:
    """It names the package to install, and the line of each connection that no boundary covers."""
    (folder / "site-packages" / "langchain_core").mkdir(parents=True)
    (folder / "site-packages" / "langchain_core" / "__init__.py").touch()
    script = program(
        "script.py",
        """
        import socket, sys
        from agenttape_core.lifecycle import entry_points
        entry_points._installed = lambda group: ()
        sys.path.insert(0, "site-packages")
        import langchain_core
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname()).close()
        """,
    )
    ended = agenttape("record", "python", script)
    assert ended.code == 1
    assert "at script.py:8\n" in ended.err
    assert "pip install agenttape-langchain\n" in ended.err
    assert cassettes(folder) == []


def test_the_hash_seed_of_a_recording(program: Program, agenttape: Agenttape, folder: Path) -> None:
    """A command that puts a set into a request replays: it starts with the seed with which it was recorded."""
    program("tags.py", "from tools import look_up; print(look_up(' '.join({f'tag{n}' for n in range(40)})))")
    recorded = agenttape("record", "--", sys.executable, "tags.py")
    (path,) = cassettes(folder)
    seed = open_cassette(folder / "cassettes" / path).header.volatile.hash_seed
    assert seed is not None
    replayed = agenttape("replay", "--", sys.executable, "tags.py")
    assert (replayed.code, replayed.out) == (0, recorded.out), replayed.err
