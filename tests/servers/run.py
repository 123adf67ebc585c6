"""Record `langgraph dev` as it stands, replay it, and compare what its client gets, byte for byte: `make servers`.

The client runs two conversations with an interrupt each, reads their streams of server-sent events and their histories,
keeps something for a while, lists threads, runs and assistants with their times, and ends the server with Ctrl-C. While
it is recorded, the command line's reports on itself are off; in the replay they are on, and must be refused.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from itertools import zip_longest
from pathlib import Path

AGENT = '''
import os, time, uuid
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"{city}: {os.getpid()} {time.time_ns()}"

def model():
    hello = AIMessage(f"Hello from {os.getpid()} at {time.time_ns()} {uuid.uuid4()}.")
    return GenericFakeChatModel(messages=iter([hello]))

async def think(state):
    return {"messages": [await model().ainvoke(state["messages"])]}

async def look(state):
    return {"messages": [("ai", await weather.ainvoke({"city": "Paris"}))]}

def ask(state):
    return {"messages": [("user", f"{interrupt({'question': 'ok?'})}")]}

builder = StateGraph(MessagesState).add_sequence([think, look, ask]).add_edge(START, "think")
graph = builder.compile()
'''
KEPT = {
    "store": {"ttl": {"default_ttl": 10, "refresh_on_read": True, "sweep_interval_minutes": 1}},
    "checkpointer": {"ttl": {"strategy": "delete", "default_ttl": 10, "sweep_interval_minutes": 1}},
}
"""How long the server keeps what it remembers, in minutes."""
PATIENCE = 120.0
MODES = ("updates", "messages-tuple", "events"), ("values", "debug")
"""What is streamed of the first and of the second run of a thread."""


def main() -> int:
    """Record, replay and compare; return 1 if something differs."""
    with tempfile.TemporaryDirectory(prefix="agenttape-servers-") as name:
        folder = Path(name)
        (folder / "agent.py").write_text(AGENT)
        (folder / "langgraph.json").write_text(
            json.dumps({"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}, **KEPT})
        )
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        quiet = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "1"}
        recorded = served("record", folder, port, quiet)
        shutil.rmtree(folder / ".langgraph_api")  # what the server keeps on disk, to be as it was
        replayed = served("replay", folder, port, {})
    for code, _, said in (recorded, replayed):
        sys.stdout.write(f"exit code {code}\n{said}")
    pairs = list(zip_longest(recorded[1].splitlines(), replayed[1].splitlines()))
    differ = [pair for pair in pairs if pair[0] != pair[1]]
    for one, other in differ[:3]:
        sys.stdout.write(f"recorded  {one!r}\nreplayed  {other!r}\n")
    sys.stdout.write(f"{len(differ)} of {len(pairs)} lines that the client got differ\n")
    good = not differ and recorded[0] == replayed[0] and "5 replayed, 0 recorded" in replayed[2]
    sys.stdout.write("langgraph dev replays\n" if good else "langgraph dev does not replay\n")
    return 0 if good else 1


def served(subcommand: str, folder: Path, port: int, extra: dict[str, str]) -> tuple[int, bytes, str]:
    """Run the server under a command, with a client; return its exit code, the client's answer, and the report."""
    tools = Path(sys.executable).parent
    words = [tools / "agenttape", subcommand, "--cassette", "dev", "--", tools / "langgraph", "dev", "--no-reload"]
    words += ["--no-browser", "--port", str(port)]
    with (folder / f"{subcommand}.log").open("w+") as log:
        server = subprocess.Popen(
            words, cwd=folder, env={**os.environ, **extra}, stdout=log, stderr=log, start_new_session=True
        )
        got = b""
        try:
            got = conversations(port)
        except (OSError, ValueError, KeyError) as error:
            sys.stdout.write(f"the client of {subcommand}: {error!r}\n")
        finally:
            os.killpg(server.pid, signal.SIGINT)
            code = server.wait(PATIENCE)
        log.seek(0)
        lines = log.read().splitlines(keepends=True)
    said = [line for line in lines if line.startswith("agenttape:")]
    return code, got, "".join(said if got else lines)


def conversations(port: int) -> bytes:
    """Have two conversations, remember something for a while, and return all that came."""
    wait_for(port)
    got = asked(port, "POST", "/assistants/search", {})
    for said in ("one", "two"):
        opened = asked(port, "POST", "/threads", {})
        thread = json.loads(opened)["thread_id"]
        runs = f"/threads/{thread}/runs/stream"
        first = {"input": {"messages": [{"role": "user", "content": said}]}, "stream_mode": MODES[0]}
        second = {"command": {"resume": "yes"}, "stream_mode": MODES[1]}
        got += opened + b"".join(asked(port, "POST", runs, {"assistant_id": "agent", **run}) for run in (first, second))
        got += asked(port, "GET", f"/threads/{thread}/history") + asked(port, "GET", f"/threads/{thread}")
        item = {"namespace": ["memories"], "key": said, "value": {"said": said}, "ttl": 5}
        got += asked(port, "PUT", "/store/items", item) + asked(port, "GET", f"/threads/{thread}/runs")
    got += asked(port, "POST", "/store/items/search", {"namespace_prefix": ["memories"]})
    got += asked(port, "POST", "/threads/search", {}) + asked(port, "POST", "/threads", {"ttl": 5})
    return got


def wait_for(port: int) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if asked(port, "GET", "/ok"):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"there is no server at {port}")


def asked(port: int, method: str, path: str, body: object = None) -> bytes:
    """Return what the server sends."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(
        method, path, json.dumps(body) if body is not None else None, {"content-type": "application/json"}
    )
    answer = connection.getresponse()
    return b"%d " % answer.status + answer.read() + b"\n" if path == "/ok" else answer.read() + b"\n"


if __name__ == "__main__":
    sys.exit(main())
