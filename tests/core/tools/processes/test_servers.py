"""Servers under `agenttape record` and `agenttape replay`: raw bytes for their clients, and how they end."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from agenttape_core.tools.processes.startup.agenttape_startup import _waits_for_import

from ....kit.installed import install
from .conftest import Ended, cassettes

Agenttape = Callable[..., Ended]
Program = Callable[[str, str], str]

THREADED = """
import os, sys
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        from tools import look_up  # the first request opens the session, in a thread of its own
        import uuid
        self.send_response(200)
        self.end_headers()
        for city in self.path.strip("/").split(","):
            self.wfile.write(f"data: {look_up(city)} {uuid.uuid4()}\\n\\n".encode())
            self.wfile.flush()
        self.wfile.write(datetime.now().isoformat().encode())

    def date_time_string(self, timestamp=None):
        return "today"

    def log_message(self, *args):
        pass

with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    with open(sys.argv[1], "w") as told:
        print(server.server_port, os.getpid(), file=told)
    server.serve_forever()
"""

LANGGRAPH = """
import asyncio, json, os, sys
from datetime import datetime
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

async def answer(state):
    model = GenericFakeChatModel(messages=iter([AIMessage(f"Hello from {os.getpid()}.")]))
    return {"messages": [await model.ainvoke(state["messages"])]}

def ask(state):
    return {"messages": [("user", interrupt("Go on?"))]}

builder = StateGraph(MessagesState).add_node(answer).add_node(ask).add_edge(START, "answer").add_edge("answer", "ask")
graph = builder.compile(checkpointer=InMemorySaver())

async def serve(reader, writer):
    thread, _, said = (await reader.readline()).decode().split()[1].strip("/").partition("/")
    while (await reader.readline()).strip():
        pass
    writer.write(b"HTTP/1.1 200 OK\\r\\nconnection: close\\r\\n\\r\\n")
    config = {"configurable": {"thread_id": thread}}
    given = Command(resume=said) if (await graph.aget_state(config)).next else {"messages": [("user", said)]}
    async for mode, part in graph.astream(given, config, stream_mode=["updates", "messages", "values", "debug"]):
        writer.write(f"event: {mode}\\ndata: {json.dumps(part, default=str)}\\n\\n".encode())
        await writer.drain()
    writer.write(f"{(await graph.aget_state(config)).created_at} {datetime.now()}".encode())
    writer.close()

async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        with open(sys.argv[1], "w") as told:
            print(server.sockets[0].getsockname()[1], os.getpid(), file=told)
        await server.serve_forever()

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals and files")
@pytest.mark.parametrize(
    ("text", "ending", "code"),
    [(THREADED, signal.SIGTERM, 143), pytest.param(LANGGRAPH, signal.SIGINT, 130, marks=pytest.mark.night)],
    ids=["threads", "loop"],
)
@pytest.mark.usefixtures("interruptible")
def test_server(program: Program, agenttape: Agenttape, text: str, ending: int, code: int) -> None:
    """A client gets the recorded bytes, and several at once the recorded answers; the server ends as it would."""

    def served(
        agenttape: Agenttape, subcommand: str, script: str, ending: int, client: Callable[[int], list[bytes]]
    ) -> tuple[Ended, list[bytes]]:
        """Run a server under AgentTape, let a client ask it, and send it a signal."""
        told = Path("told")
        told.unlink(missing_ok=True)
        os.mkfifo(told)

        def ask() -> list[bytes]:
            port, number = map(int, told.read_text().split())
            try:
                return client(port)
            finally:
                os.kill(number, ending)

        with ThreadPoolExecutor(1) as pool:
            answers = pool.submit(ask)
            ended = agenttape(subcommand, "--cassette", "run", "--", "python", script, str(told))
            return ended, answers.result()

    def fetched(port: int, path: str) -> bytes:
        """All that a server sends."""
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        return repr(answer.getheaders()).encode() + answer.read()

    script = program("server.py", text)
    together = ["/one/a", "/two/b", "/three/c"]

    def client(port: int) -> list[bytes]:
        answers = [fetched(port, "/zero/x"), fetched(port, "/zero/y")]
        with ThreadPoolExecutor(3) as pool:
            return answers + list(pool.map(lambda path: fetched(port, path), together))

    recorded, bytes_then = served(agenttape, "record", script, ending, client)
    replayed, bytes_now = served(agenttape, "replay", script, ending, client)
    assert (recorded.code, replayed.code) == (code, code)
    assert "killed" not in recorded.err + replayed.err
    assert cassettes(Path.cwd()) == ["run.yaml"]
    calls = len(bytes_then) - (text is LANGGRAPH)  # the second request there goes on after an interrupt
    assert f"0 replayed, {calls} recorded" in recorded.err
    assert f"{calls} replayed, 0 recorded" in replayed.err
    assert bytes_now[:2] == bytes_then[:2]
    # Who comes first of those that come at once is the clients' affair, and so are the ids that each of them gets.
    assert [len(answer) for answer in bytes_now] == [len(answer) for answer in bytes_then]
    answered = [re.findall(rb"[a-z]: \d+|Hello from \d+", answer) for answer in bytes_then]
    assert all(answered)
    assert [re.findall(rb"[a-z]: \d+|Hello from \d+", answer) for answer in bytes_now] == answered


@pytest.mark.process
@pytest.mark.usefixtures("forked_python")
def test_telemetry_is_refused_quietly(
    folder: Path, program: Program, agenttape: Agenttape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command line reports on itself is refused like a dead network, is named, and fails nothing."""
    monkeypatch.setenv("PYTHONPATH", str(folder / "site-packages"))
    install(
        folder,
        "langgraph-cli",
        "langgraph_cli.analytics",
        """if True:
        import socket
        def log_data(port, told):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except OSError as error:
                told.append(type(error).__name__)
        """,
    )
    script = program(
        "cli.py",
        """
        import sys, threading
        from langgraph_cli.analytics import log_data
        told = []
        thread = threading.Thread(target=log_data, args=(int(sys.argv[1]), told))
        thread.start()
        thread.join()
        from tools import look_up
        later = threading.Thread(target=log_data, args=(int(sys.argv[1]), told))
        later.start()
        later.join()
        print(look_up("Paris"), told)
        """,
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        recorded = agenttape("record", "--cassette", "run", "--", "python", script, port)
        assert "a replay will refuse it" not in recorded.err
        assert [server.accept()[0].close() for _ in range(2)] == [None, None]
        replayed = agenttape("replay", "--cassette", "run", "--", "python", script, port)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    refused = "['ConnectionRefusedError', 'ConnectionRefusedError']"
    assert (replayed.code, replayed.out) == (0, recorded.out.replace("[]", refused))
    line = f"tried to connect to 127.0.0.1:{port}"
    assert replayed.err.count(line) == 2


@pytest.mark.process
@pytest.mark.usefixtures("forked_python")
def test_nothing_gets_out_at_the_end(program: Program, agenttape: Agenttape) -> None:
    """A thread that connects until the process is gone is refused to the last."""
    script = program(
        "busy.py",
        """
        import socket, sys, threading
        from tools import look_up

        refused = threading.Event()

        def connect():
            while True:
                try:
                    socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
                except BaseException:
                    refused.set()

        look_up("Paris")
        if sys.argv[1] != "0":
            threading.Thread(target=connect, daemon=True).start()
            refused.wait()
        """,
    )
    assert agenttape("record", "--", "python", script, "0").code == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert agenttape("replay", "--", "python", script, str(server.getsockname()[1])).code == 1
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_waiting_for_an_import_by_way_of_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a session is not waited for by a thread whose import it needs, also for want of a third's."""
    (tmp_path / "waited_for.py").write_text("import builtins\nbuiltins.while_importing()\n")
    (tmp_path / "waits_for_it.py").write_text("import waited_for\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    me = threading.get_ident()
    threads: list[threading.Thread] = []

    def while_importing() -> None:
        for _ in range(2):
            threads.append(threading.Thread(target=__import__, args=["waits_for_it"]))
            threads[-1].start()
            while not _waits_for_import(threads[-1].ident, me):
                pass

    monkeypatch.setattr("builtins.while_importing", while_importing, raising=False)
    try:
        __import__("waited_for")
        for thread in threads:
            thread.join()
            assert not _waits_for_import(thread.ident, me)
        assert not _waits_for_import(None, me)
    finally:
        for name in ("waited_for", "waits_for_it"):
            sys.modules.pop(name, None)
