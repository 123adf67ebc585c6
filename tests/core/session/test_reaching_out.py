"""What a replay may reach: nothing, or `allow_hosts`; and what is live, from the extent of its own call only."""

from __future__ import annotations

import asyncio
import http.client
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import AgentTapeHalt, NetworkBlockedError
from agenttape_core.lifecycle.derived import deriving

from ...kit.installed import install
from ...kit.serving import LastingHello, serving
from .world import OlderThread, in_thread, in_threads, refused

OUTSIDE = ("192.0.2.1", 9)  # TEST-NET-1 of RFC 5737: no such host anywhere


class Server(ThreadingHTTPServer):
    """A server that keeps connections, and counts what is asked of it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(LastingHello):
    """Says hello, and keeps a log of what it was asked."""

    def log_request(self, *_: object) -> None:
        """Note the path."""
        server: Any = self.server
        server.asked.append(self.path)


pytestmark = pytest.mark.usefixtures("recorded")


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """The server."""
    with serving(Server()) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    """The server, of which nothing was asked."""
    running.asked.clear()
    return running


# -- connections that are open already -------------------------------------------------------------------------


def by_http_client(url: str, stack: ExitStack) -> Callable[[], object]:
    """Keep a connection with the standard library."""
    connection = stack.enter_context(closing(http.client.HTTPConnection(url.removeprefix("http://"))))

    def get() -> object:
        connection.request("GET", "/")
        return connection.getresponse().read()

    return get


def by_makefile(url: str, stack: ExitStack) -> Callable[[], object]:
    """Keep a connection as a file."""
    host, _, port = url.removeprefix("http://").partition(":")
    sock = stack.enter_context(socket.create_connection((host, int(port))))
    file = stack.enter_context(sock.makefile("rwb", buffering=0))

    def get() -> object:
        file.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while file.readline().strip():
            pass
        return file.read(5)

    return get


def by_httpx(url: str, stack: ExitStack) -> Callable[[], object]:
    """Keep a pool with httpx."""
    client = stack.enter_context(pytest.importorskip("httpx").Client(trust_env=False))
    return lambda: client.get(url).content


def by_requests(url: str, stack: ExitStack) -> Callable[[], object]:
    """Keep a pool with requests, which is urllib3's."""
    client = stack.enter_context(pytest.importorskip("requests").Session())
    client.trust_env = False
    return lambda: client.get(url, timeout=30).content


def by_asyncio(url: str, stack: ExitStack) -> Callable[[], object]:
    """Keep the connection of an event loop."""
    runner = stack.enter_context(asyncio.Runner())
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = runner.run(asyncio.open_connection(host, int(port)))
    stack.callback(writer.close)

    async def get() -> object:
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await writer.drain()
        await reader.readuntil(b"\r\n\r\n")
        return await reader.readexactly(5)

    return lambda: runner.run(get())


def by_async_httpx(url: str, stack: ExitStack) -> Callable[[], object]:
    """Keep an asynchronous pool with httpx."""
    runner = stack.enter_context(asyncio.Runner())
    client = pytest.importorskip("httpx").AsyncClient(trust_env=False)
    stack.callback(lambda: runner.run(client.aclose()))

    async def get() -> object:
        return (await client.get(url)).content

    return lambda: runner.run(get())


@pytest.fixture
def kept(server: Server, request: pytest.FixtureRequest) -> Iterator[Callable[[], object]]:
    """A client whose connection is older than a replay of `c`, and has been used."""
    with ExitStack() as stack:
        get: Callable[[], object] = request.param(server.url, stack)
        assert get() == b"hello"
        yield get


@pytest.mark.parametrize(
    "kept", [by_http_client, by_makefile, by_httpx, by_requests, by_asyncio, by_async_httpx], indirect=True
)
def test_connection_from_before_the_replay(server: Server, kept: Callable[[], object]) -> None:
    """A send on it is refused like a connection: nothing arrives, nobody waits, and the session fails."""
    with refused(f"send on the open connection to 127.0.0.1:{server.server_port}"), suppress(BaseException):
        kept()
    assert server.asked == ["/"]


@pytest.mark.parametrize("kept", [by_http_client], indirect=True)
def test_who_started_the_program_does_not_excuse_it(server: Server, kept: Callable[[], object]) -> None:
    """A debugger or a worker of xdist is on the stack of all that it runs; only what it sends itself is let through."""
    below: dict[str, Any] = {"__name__": "execnet.gateway_base"}
    exec("def run(program): return program()\ndef send(sock): sock.send(b'GET / HTTP/1.0\\r\\n\\r\\n')", below)
    with socket.create_connection(("127.0.0.1", server.server_port)) as own:
        with refused("send on the open connection"):
            below["send"](own)
            below["run"](kept)
        assert own.makefile("rb").read().startswith(b"HTTP")


@pytest.mark.parametrize("kept", [by_http_client, by_async_httpx], indirect=True)
def test_allowed_connection_from_before_the_replay(kept: Callable[[], object]) -> None:
    """It goes on if a new one would be allowed."""
    with use_cassette("c", on_unused="ignore", allow_hosts={"loopback"}):
        assert kept() == b"hello"
    assert kept() == b"hello"


def test_allowed_name_of_a_connection_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to an allowed name is known by the addresses that the name has."""
    asked: list[Any] = []

    def getaddrinfo(host: Any, *_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr("_socket.getaddrinfo", getaddrinfo)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        with use_cassette("c", on_unused="ignore", allow_hosts={"api.example.com", "*.example.org", "192.0.2.7"}):
            client.sendall(b"x")
            client.sendall(b"x")
    assert asked == ["api.example.com"]


def test_answers_of_a_server() -> None:
    """What a server of this process answers goes to whoever has asked it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        answering, _ = listener.accept()
        with answering, use_cassette("c", on_unused="ignore"):
            answering.sendall(b"hello")


# -- attempts of threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_older", [True, False])
def test_attempt_of_a_thread_fails_the_session(older_thread: OlderThread, is_older: bool) -> None:
    """Any thread's, also one that is older than the session; the error is latched wherever it went."""

    def connect() -> None:
        with suppress(NetworkBlockedError), socket.socket() as sock:
            sock.connect(OUTSIDE)

    with refused("connect to 192"):
        older_thread.result(connect) if is_older else in_thread(connect)


def test_look_up_of_an_event_loop_fails_the_session() -> None:
    """Loops look names up in threads of a pool."""

    async def fetch() -> None:
        await asyncio.open_connection("api.example.com", 443)

    async def program() -> None:
        async with use_cassette("c", on_unused="ignore"):
            await asyncio.gather(fetch(), return_exceptions=True)

    with pytest.raises(NetworkBlockedError, match=r"reach api\.example\.com"):
        asyncio.run(program())


REPORTS = """
import socket

def report(address):
    try:
        with socket.socket() as sock:
            sock.connect(address)
    except OSError:
        pass

def evaluate(target, *args):
    target(*args)
"""


def test_attempt_of_a_tracer_does_not(tmp_path: Path) -> None:
    """Telemetry is refused, and reported, but a run cannot help when it comes."""
    tracer: Any = install(tmp_path, "opentelemetry-sdk", "opentelemetry.sdk.export", REPORTS)
    with use_cassette("c", on_unused="ignore") as session:
        in_threads(tracer.report, [OUTSIDE])
    assert len(session.report.blocked) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("distribution", ["", "my-agent"])
def test_attempt_of_a_module_with_the_name_of_telemetry(tmp_path: Path, distribution: str) -> None:
    """A module `segment` of the program, even an installed one, fails the run: the program catches no `OSError`."""
    module: Any = install(tmp_path, distribution, "segment", REPORTS)
    with refused(r"segment\.py"):
        in_threads(module.report, [OUTSIDE])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_attempt_of_the_program_in_a_thread_of_a_tracer(tmp_path: Path) -> None:
    """The target of an evaluation is the program's own: its attempt fails the run, and the message has its line."""
    langsmith: Any = install(tmp_path, "langsmith", "langsmith.evaluation", REPORTS)
    own: dict[str, Any] = {"__name__": "target"}
    exec(compile(REPORTS, str(tmp_path / "target.py"), "exec"), own)
    with refused(r"target\.py:7 in report"):
        in_threads(partial(langsmith.evaluate, own["report"]), [OUTSIDE])


def test_attempt_of_another_session() -> None:
    """Of two replays only the one fails whose code it was."""

    async def one(reaches: bool) -> str:
        try:
            async with use_cassette("c", on_unused="ignore"):
                await asyncio.sleep(0)
                if reaches:
                    with suppress(AgentTapeHalt), socket.socket() as sock:
                        sock.connect(OUTSIDE)
        except NetworkBlockedError:
            return "failed"
        return "passed"

    async def both() -> list[str]:
        return await asyncio.gather(one(True), one(False))

    assert asyncio.run(both()) == ["failed", "passed"]


# -- live ------------------------------------------------------------------------------------------------------


def fetching(url: str) -> str:
    """Fetch in the thread of the caller."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url) as response:
        text: str = response.read().decode()
    return text


def fetching_in_a_pool(url: str) -> str:
    """Fetch in a pool of the call's own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fetching, url).result()


def fetching_in_a_thread(url: str) -> str:
    """Fetch in a bare thread."""
    return in_thread(lambda: fetching(url))


def fetching_in_a_loop(url: str) -> str:
    """Fetch in an event loop, which looks the name up in a thread."""

    async def fetch() -> str:
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection("localhost" if host == "127.0.0.1" else host, int(port))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        text = await reader.readexactly(5)
        writer.close()
        await writer.wait_closed()
        return text.decode()

    return asyncio.run(fetch())


def taped(way: Callable[[str], str], server: Server) -> Callable[[str], str]:
    """Return a boundary that has fetched once, in the recording `c`."""
    fetch = boundary("tool")(way)
    with use_cassette("c", mode="all"):
        fetch(server.url)
    return fetch


WAYS = pytest.mark.parametrize("way", [fetching, fetching_in_a_pool, fetching_in_a_thread, fetching_in_a_loop])


@WAYS
def test_live_call_reaches_out_and_its_program_does_not(server: Server, way: Callable[[str], str]) -> None:
    """The guard stays on beside a live call, before it, after it and while nothing executes."""
    fetch = taped(way, server)
    with use_cassette("c", live={"tool"}):
        assert fetch(server.url) == "hello"
    with pytest.raises(NetworkBlockedError), use_cassette("c", live={"tool"}, on_unused="ignore"):
        assert fetch(server.url) == "hello"
        with suppress(NetworkBlockedError):
            way(server.url)
    assert len(server.asked) == 3


@WAYS
def test_live_call_reaches_what_allow_hosts_names(server: Server, way: Callable[[str], str]) -> None:
    """Where hosts are given, a live call reaches them and no others."""
    fetch = taped(way, server)
    with use_cassette("c", live={"tool"}, allow_hosts={"loopback"}):
        assert fetch(server.url) == "hello"
    with refused(r"by a live call .* with other allowed hosts", live={"tool"}, allow_hosts={"api.example.com"}):
        fetch(server.url)
    assert len(server.asked) == 2


@WAYS
@pytest.mark.parametrize("entry", ["loopback", "127.0.0.1", "{0}"])
def test_host_of_live_calls_is_open_inside_them_only(server: Server, way: Callable[[str], str], entry: str) -> None:
    """Where calls are live, a host in `allow_hosts` is closed to all other code, and the error shows how to open it."""
    fetch = taped(way, server)
    with refused(
        r"outside of the live calls[^$]*allow_hosts={'program:loopback'}",
        live={"tool"},
        allow_hosts={entry.format(urlsplit(server.url).netloc)},
    ):
        assert fetch(server.url) == "hello"
        way(server.url)
    assert len(server.asked) == 2


def test_program_beside_live_calls(server: Server) -> None:
    """An entry with `program:` is open to the whole program, at its port alone, and does not restrict live calls."""
    place = urlsplit(server.url)
    fetch = taped(fetching, server)
    with use_cassette("c", live={"tool"}, allow_hosts={f"program:{place.netloc}"}):
        assert fetching(server.url) == fetch(server.url) == "hello"
    with use_cassette("c", live={"tool"}, allow_hosts={"program:192.0.2.7"}):
        assert fetch(server.url) == "hello"
    with use_cassette("c", on_unused="ignore", allow_hosts={f"program:{place.netloc}"}):
        assert fetching(server.url) == "hello"
    opens = f"allow_hosts={{'program:loopback:{place.port}'}}"
    with refused(opens, live={"tool"}, allow_hosts={"program:127.0.0.1:9"}):
        fetching(server.url)


def test_threads_of_a_client_that_is_older(server: Server, older_thread: OlderThread) -> None:
    """A client with threads from before the session works for the call that is live, and only then."""

    def fetch_there(url: str) -> str:
        return older_thread.result(lambda: fetching(url))

    fetch = taped(fetch_there, server)
    with pytest.raises(NetworkBlockedError), use_cassette("c", live={"tool"}):
        assert fetch(server.url) == "hello"
        with suppress(NetworkBlockedError):
            fetch_there(server.url)
    assert len(server.asked) == 2


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_task_that_outlives_a_live_call(server: Server) -> None:
    """What a live call has started may reach out for as long as the call goes on."""
    tasks: list[asyncio.Task[Any]] = []

    async def later(go: asyncio.Event) -> None:
        await go.wait()
        with socket.socket() as sock:
            sock.connect(("127.0.0.1", server.server_port))

    async def program(**options: Any) -> None:
        go = asyncio.Event()

        @boundary("tool")
        async def begin() -> str:
            tasks.append(asyncio.create_task(later(go)))
            return "begun"

        async with use_cassette("c", **options):
            await begin()
            go.set()
            await tasks[-1]

    asyncio.run(program(mode="all"))
    with pytest.raises(NetworkBlockedError):
        asyncio.run(program(live={"tool"}))


def test_run_that_diverges_from_its_recording(server: Server) -> None:
    """After the divergence, too, only calls that are executed reach out."""
    fetch = taped(fetching, server)
    derivation = deriving("c", live={"tool"})
    with pytest.raises(NetworkBlockedError), derivation:
        assert fetch(server.url) == "hello"
        derivation.allow_execution()
        assert fetch(server.url) == "hello"
        fetching(server.url)
    assert len(server.asked) == 2


@pytest.mark.process
def test_processes_of_a_live_call() -> None:
    """A live call may start processes, unless hosts are given: nobody guards a process."""

    @boundary("tool")
    def run() -> str:
        return subprocess.run([sys.executable, "-c", ""], check=True).args[2]  # type: ignore[no-any-return]

    with use_cassette("c", mode="all"):
        run()
    with use_cassette("c", live={"tool"}):
        run()
    refused = pytest.raises(NetworkBlockedError, match="start the process")
    with refused, use_cassette("c", live={"tool"}, allow_hosts={"api.example.com"}):
        run()


def test_replay_inside_of_a_live_call(server: Server) -> None:
    """A session that a live call opens is as offline as any other."""
    with use_cassette("inner", mode="all"):
        pass

    @boundary("tool")
    def nested() -> str:
        with use_cassette("inner"):
            return fetching(server.url)

    with use_cassette("c", mode="all"), suppress(NetworkBlockedError):
        nested()
    with pytest.raises(NetworkBlockedError), use_cassette("c", live={"tool"}, on_unused="ignore"):
        nested()
    assert server.asked == []
