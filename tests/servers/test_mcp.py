"""MCP servers of the official package, over each transport: recorded, and replayed without them.

They are skipped where the packages could not be installed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError

pytest.importorskip("mcp")

import mcp
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, TextContent

from ..kit import forks

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]
PROGRAM = Path(__file__).with_name("mcp_weather.py")
PATIENCE = 30.0
IS_NEW = hasattr(mcp, "MCPError")
"""True from mcp 2 on, whose times are numbers and whose fields are in snake case."""
McpError: type[Exception] = getattr(mcp, "MCPError" if IS_NEW else "McpError")
UNAVAILABLE = "The tool is not available."


class Server:
    """A server, and what it has done.

    Args:
        folder: The folder of its notes.
        transport: `stdio`, `sse` or `streamable-http`.
        python: The command that a client starts.
    """

    def __init__(self, folder: Path, transport: str, python: Path) -> None:
        self._seen = folder / "seen"
        self._python = python
        self.transport = transport
        self.port = 0
        self.environment = {"SEEN": str(self._seen)}

    def seen(self) -> list[str]:
        """Return what it has done since the last time."""
        words = self._seen.read_text().splitlines() if self._seen.exists() else []
        self._seen.unlink(missing_ok=True)
        return words

    @property
    def parameters(self) -> StdioServerParameters:
        """The process that a client starts."""
        return StdioServerParameters(command=str(self._python), args=[str(PROGRAM), "stdio"], env=self.environment)

    @asynccontextmanager
    async def connected(self, **callbacks: Any) -> AsyncIterator[ClientSession]:
        """Connect a client."""
        if self.transport == "stdio":
            opened: Any = stdio_client(self.parameters)
        elif self.transport == "sse":
            opened = sse_client(f"http://127.0.0.1:{self.port}/sse")
        else:
            opened = streamable_http_client(f"http://127.0.0.1:{self.port}/mcp")
        async with opened as streams, ClientSession(streams[0], streams[1], **callbacks) as session:
            await session.initialize()
            yield session


@pytest.fixture(scope="module")
def forked_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A `python` that begins with the package loaded."""
    loaded = "mcp.server.mcpserver" if IS_NEW else "mcp.server.fastmcp"
    with forks.commands(tmp_path_factory.mktemp("python"), (loaded,), "python") as folder:
        yield folder / "python"


@pytest.fixture(params=["stdio", "sse", "streamable-http"], scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, forked_python: Path
) -> Iterator[Server]:
    """A server of each transport; one over HTTP runs, for all tests."""
    found = Server(tmp_path_factory.mktemp("server"), request.param, forked_python)
    if found.transport == "stdio":
        yield found
        return
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found.port = taken.getsockname()[1]
    words = [sys.executable, str(PROGRAM), found.transport]
    running = subprocess.Popen(words, env={**os.environ, **found.environment, "PORT": str(found.port)})
    deadline = time.monotonic() + PATIENCE
    try:
        while socket.socket().connect_ex(("127.0.0.1", found.port)):
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.05)
        yield found
    finally:
        running.kill()
        running.wait()


@pytest.fixture
def server(running: Server) -> Server:
    """A server of each transport, whose port a test may change."""
    running.seen()
    return copy(running)


@pytest.fixture
def stdio(tmp_path: Path, forked_python: Path) -> Server:
    """A server that a client starts."""
    return Server(tmp_path, "stdio", forked_python)


def told(result: Any) -> str:
    """Return the text of a result of a tool."""
    return str(result.content[0].text)


@boundary("call")
async def model(question: str) -> str:
    """Answer a server that asks the model of its client."""
    return f"{question} Yes, says {os.urandom(4).hex()}."


@pytest.mark.parametrize("http", [False, True])
def test_all_of_a_server_is_replayed_without_it(server: Server, tmp_path: Path, http: bool) -> None:
    """Answers, progress, logs, requests to the client, errors and time-outs come again, and the server gets nothing."""

    async def everything(server: Server) -> list[Any]:
        """Use all that a server has."""
        heard: list[Any] = []

        async def sampled(_: Any, params: Any) -> CreateMessageResult:
            said = TextContent(type="text", text=await model(params.messages[0].content.text))
            return CreateMessageResult(role="assistant", content=said, model="scripted")

        async def logged(params: Any) -> None:
            heard.append(params.data)

        async def progressed(*progress: Any) -> None:
            heard.append(progress)

        async with server.connected(sampling_callback=sampled, logging_callback=logged) as session:
            heard.append([tool.name for tool in (await session.list_tools()).tools])
            cities = await asyncio.gather(*(session.call_tool("read_weather", {"city": city}) for city in "ABCDEF"))
            heard += map(told, cities)
            heard.append(told(await session.call_tool("plan", {"days": 2}, progress_callback=progressed)))
            failed = await session.call_tool("book", {"city": "Atlantis"})
            heard.append((getattr(failed, "is_error" if IS_NEW else "isError"), told(failed)))
            for seconds in (0.2, None):
                limit: Any = (seconds if IS_NEW else timedelta(seconds=seconds)) if seconds else None
                try:
                    async with asyncio.timeout(0.2 if seconds is None else None):
                        await session.call_tool("wait", {}, read_timeout_seconds=limit)
                except (McpError, TimeoutError) as error:
                    heard.append(repr(error))
            heard.append(told(await session.call_tool("read_weather", {"city": "A"})))
            heard.append((await session.read_resource("notes://trip")).contents[0].text)
            heard.append((await session.get_prompt("greet", {"name": "Ann"})).messages[0].content.text)
        return heard

    path = tmp_path / "all.yaml"
    with use_cassette(path, mode="all", http=http):
        first = asyncio.run(everything(server))
    assert server.seen()
    server.port = 1  # nobody listens there
    ignored = ("server.port",)
    with use_cassette(path, ignore=ignored) as cassette:
        assert asyncio.run(everything(server)) == first
    assert (cassette.report.recorded, server.seen()) == ((), [])
    calls = [(call.kind, call.name) for call in open_cassette(path).interactions()]
    assert calls[:4] == [
        *(("call", f"mcp.{name}") for name in ("connect", "initialize", "tools.list")),
        ("tool", "read_weather"),
    ]
    assert "http" not in {kind for kind, _ in calls}


def test_messages_during_requests_that_overlap(server: Server, tmp_path: Path) -> None:
    """Progress and logs of parallel calls reach the client in their order, each between two steps of the program."""

    async def program() -> list[Any]:
        heard: list[Any] = []

        async def logged(params: Any) -> None:
            heard.append(params.data)
            await asyncio.sleep(0)
            heard.append("went on")

        async def progressed(*progress: Any) -> None:
            heard.append(progress)

        async with server.connected(logging_callback=logged) as session:
            rains = [session.call_tool("rain", {"days": days}, progress_callback=progressed) for days in range(4)]
            heard += map(told, await asyncio.gather(*rains, session.call_tool("read_weather", {"city": "A"})))
            await session.send_ping()
        return heard

    with use_cassette(tmp_path / "rain.yaml", mode="all"):
        first = asyncio.run(program())
    for _ in range(2):
        with use_cassette(tmp_path / "rain.yaml") as cassette:
            assert asyncio.run(program()) == first
        assert cassette.report.nondeterminism == ()


def test_messages_at_any_time(server: Server, tmp_path: Path) -> None:
    """What a server sends all the time comes between the same steps of the program, over each transport."""

    async def program() -> list[Any]:
        heard: list[Any] = []
        ticked = asyncio.Event()

        async def logged(params: Any) -> None:
            heard.append(params.data)
            ticked.set()

        async with server.connected(logging_callback=logged) as session:
            heard.append(told(await session.call_tool("tick", {})))
            for step in range(6):
                ticked.clear()
                await ticked.wait()
                heard.append(step)
                if step % 2:
                    heard.append(told(await session.call_tool("read_weather", {"city": "A"})))
        return heard

    with use_cassette(tmp_path / "ticks.yaml", mode="all"):
        first = asyncio.run(program())
    for _ in range(2):
        with use_cassette(tmp_path / "ticks.yaml") as cassette:
            assert asyncio.run(program()) == first
        assert cassette.report.nondeterminism == ()


def test_a_server_that_dies_dies_again(stdio: Server, tmp_path: Path) -> None:
    """A client whose server has gone away gets the same error in a replay."""

    async def program() -> str:
        async with stdio.connected() as session:
            with pytest.raises(McpError) as gone:
                await session.call_tool("die", {})
            return str(gone.value)

    with use_cassette(tmp_path / "die.yaml", mode="all"):
        first = asyncio.run(program())
    stdio.seen()
    with use_cassette(tmp_path / "die.yaml"):
        assert asyncio.run(program()) == first == "Connection closed"
    assert stdio.seen() == []


async def calls_of(server: Server, *calls: tuple[str, str]) -> list[str]:
    """Call tools of a server one after another."""
    async with server.connected() as session:
        await session.list_tools()
        return [told(await session.call_tool(name, {"city": city})) for name, city in calls]


A, B = ("read_weather", "A"), ("book", "A")


@pytest.fixture
def recorded(stdio: Server, tmp_path: Path) -> Path:
    """A recording of two calls."""
    path = tmp_path / "calls.yaml"
    with use_cassette(path, mode="all"):
        asyncio.run(calls_of(stdio, A, B))
    assert stdio.seen() == ["started", "read A", "book A"]
    return path


def test_tools_that_may_be_called_again(stdio: Server, recorded: Path) -> None:
    """Where the run has left its recording, a tool that says that it only reads runs, and its sister never does."""
    asked = (A, ("read_weather", "Rome"), ("book", "Rome"), ("read_weather", "Oslo"))
    with use_cassette(recorded, on_miss="return", live={"idempotent"}, on_unused="ignore") as cassette:
        found = asyncio.run(calls_of(stdio, *asked))
    assert [found[2], *(said.partition(",")[0] for said in found[1::2])] == [UNAVAILABLE, "Rome: sunny", "Oslo: sunny"]
    assert [word for word in stdio.seen() if word != "started"] == ["read Rome", "read Oslo"]
    assert [(unrecorded.name, unrecorded.nearest) for unrecorded in cassette.report.unrecorded] == [("book", 5)]


def test_fakes_answer_for_tools(stdio: Server, recorded: Path) -> None:
    """A function of the user answers a call that was never recorded, in the form that the tool has declared."""
    with use_cassette(recorded, on_miss="return", on_unused="ignore", fakes={"book": lambda city: f"{city}: faked"}):
        assert asyncio.run(calls_of(stdio, ("book", "Rome"))) == ["Rome: faked"]
    assert stdio.seen() == []


def test_a_miss_names_the_tool(stdio: Server, recorded: Path) -> None:
    """A call that was not recorded is a miss that names the tool and what differs."""
    with pytest.raises(CassetteMissError) as miss, use_cassette(recorded):
        asyncio.run(calls_of(stdio, ("read_weather", "Rome")))
    assert str(miss.value).startswith("read_weather was called with a request")
    assert "arguments.city" in str(miss.value)
    assert stdio.seen() == []


def test_new_calls_are_added(stdio: Server, recorded: Path) -> None:
    """A session that adds what is missing starts the server for that alone, and greets it first."""
    with use_cassette(recorded, mode="new_episodes"):
        asyncio.run(calls_of(stdio, A, B))
        assert stdio.seen() == []
        asyncio.run(calls_of(stdio, ("book", "Rome")))
    assert stdio.seen() == ["started", "book Rome"]


def test_a_client_gives_up_while_it_connects(stdio: Server, recorded: Path) -> None:
    """A client that waits no longer for a server, which a new call needs, gets its own error and no other."""

    async def program(port: int) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), sse_client(f"http://127.0.0.1:{port}/sse"):
                pytest.fail("it's silent")

    with socket.create_server(("127.0.0.1", 0)) as silent, use_cassette(recorded, mode="new_episodes"):
        asyncio.run(program(silent.getsockname()[1]))
        assert asyncio.run(calls_of(stdio, A))


def test_a_boundary_around_all_of_it(stdio: Server, tmp_path: Path) -> None:
    """A function that connects and is a tool itself is one recording."""

    @boundary("tool", name="weather")
    async def program() -> list[str]:
        return await calls_of(stdio, A)

    with use_cassette(tmp_path / "tool.yaml", mode="all") as cassette:
        first = asyncio.run(program())
    assert [call.name for call in cassette.report.recorded] == ["weather"]
    stdio.seen()
    with use_cassette(tmp_path / "tool.yaml"):
        assert asyncio.run(program()) == first
    assert stdio.seen() == []


class Scripted(GenericFakeChatModel):
    """A model that calls two tools."""

    model: str = "scripted-1"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Offer tools."""
        return self


def scripted(first: str, second: str) -> Scripted:
    """Return a model that reads the weather of one city, and books another one."""
    calls = [("read_weather", first), ("book", second)]
    asked = [
        AIMessage("", tool_calls=[{"name": name, "args": {"city": city}, "id": f"call-{name}"}]) for name, city in calls
    ]
    return Scripted(messages=iter([*asked, AIMessage("done")]))


@pytest.mark.parametrize("holds", [False, True])
def test_an_agent_of_langchain(stdio: Server, tmp_path: Path, holds: bool) -> None:
    """With `langchain-mcp-adapters` an agent replays without the server; a candidate runs what only reads."""

    def langchain_agent(server: Server, *, holds: bool) -> Callable[[Any], Awaitable[list[str]]]:
        """Return an agent of LangChain whose tools are those of the server.

        Args:
            server: The server.
            holds: Whether it holds one connection, or makes one for each call.
        """
        adapters = pytest.importorskip("langchain_mcp_adapters.client")
        tools_of = pytest.importorskip("langchain_mcp_adapters.tools").load_mcp_tools
        facts = server.parameters
        known = {"transport": "stdio", "command": facts.command, "args": facts.args, "env": facts.env}

        async def answered(model: Any, tools: Any) -> list[str]:
            result = await create_agent(model, tools).ainvoke({"messages": [("user", "go")]})
            return [message.text for message in result["messages"] if message.type == "tool"]

        async def agent(model: Any) -> list[str]:
            client = adapters.MultiServerMCPClient({"weather": known})
            if not holds:
                return await answered(model, await client.get_tools())
            async with client.session("weather") as session:
                return await answered(model, await tools_of(session))

        return agent

    agent, path, derived = langchain_agent(stdio, holds=holds), tmp_path / "agent.yaml", tmp_path / "derived.yaml"
    with use_cassette(path, mode="all"):
        first = asyncio.run(agent(scripted("A", "A")))
    assert stdio.seen()[-1] == "book A"
    with use_cassette(path) as cassette:
        assert asyncio.run(agent(scripted("A", "A"))) == first
    assert (cassette.report.recorded, stdio.seen()) == ((), [])
    with use_cassette(path, candidate=scripted("Rome", "Rome"), live={"idempotent"}, to=derived):
        tried = asyncio.run(agent(scripted("A", "A")))
    assert (tried[0].partition(",")[0], tried[1], stdio.seen()) == (
        "Rome: sunny",
        UNAVAILABLE,
        ["started", "read Rome"],
    )
    with use_cassette(derived):
        assert asyncio.run(agent(scripted("A", "A"))) == tried
    assert stdio.seen() == []


def test_tools_of_llama_index(stdio: Server, tmp_path: Path) -> None:
    """With `llama-index-tools-mcp` tools replay without the server."""
    theirs = pytest.importorskip("llama_index.tools.mcp")
    pytest.importorskip("agenttape_llamaindex")
    facts = stdio.parameters

    async def program() -> list[str]:
        client = theirs.BasicMCPClient(facts.command, args=facts.args, env=facts.env)
        tools = await theirs.McpToolSpec(client=client, allowed_tools=["read_weather", "book"]).to_tool_list_async()
        return [(await tool.acall(city="A")).content for tool in tools]

    with use_cassette(tmp_path / "tools.yaml", mode="all"):
        first = asyncio.run(program())
    assert stdio.seen()[-1] == "book A"
    with use_cassette(tmp_path / "tools.yaml") as cassette:
        assert asyncio.run(program()) == first
    assert (cassette.report.recorded, stdio.seen()) == ((), [])
