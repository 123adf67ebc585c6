"""While a guard is open nothing reaches the outside, from any thread and with any client."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
import types
import urllib.request
from contextvars import ContextVar
from http.server import HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.errors import ConfigurationError, NetworkBlockedError, shown_path
from agenttape_core.guard import Guard, caller, guarding

from ..kit.serving import Hello, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OUTSIDE = ("192.0.2.1", 9)  # TEST-NET-1 of RFC 5737: no such host anywhere

may_execute: ContextVar[bool] = ContextVar("may_execute", default=False)


@pytest.fixture
def port() -> Iterator[int]:
    """A loopback server that says hello."""
    with serving(HTTPServer(("127.0.0.1", 0), Hello)) as server:
        yield server.server_port


def by_socket(port: int) -> None:
    """Connect as low as Python goes."""
    with socket.socket() as sock:
        sock.connect(("127.0.0.1", port))


def by_urllib(port: int, host: str = "127.0.0.1") -> None:
    """Fetch with the standard library."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{host}:{port}") as response:
        assert response.read() == b"hello"


def by_asyncio(port: int) -> None:
    """Connect through a fresh event loop, which makes a socket pair of its own."""

    async def connect() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()

    asyncio.run(connect())


def by_httpx(port: int) -> None:
    """Fetch with httpx, if it is there."""
    httpx = pytest.importorskip("httpx")
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"http://127.0.0.1:{port}").text == "hello"


def send_by_name(method: str, *args: object) -> None:
    """Send a datagram to a host that is given as a name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        getattr(sock, method)(*args, ("example.com", 443))


def offline(*allow_hosts: str, name: str = "weather", on_block: Any = None) -> Any:
    """A guard whose exemption is the test's context variable."""
    return guarding(Guard(name=name, allow_hosts=allow_hosts, on_block=on_block), may_execute.get)


def blocked(attempt: Callable[[], object]) -> NetworkBlockedError:
    """The error that an attempt ends with."""
    with pytest.raises(NetworkBlockedError) as caught:
        attempt()
    return caught.value


CLIENTS = pytest.mark.parametrize("client", [by_socket, by_urllib, by_asyncio, by_httpx])


@CLIENTS
def test_every_client_is_blocked(client: Callable[[int], None], port: int) -> None:
    """Whatever the client is, it does not get through, and does again after."""
    client(port)
    with offline():
        blocked(lambda: client(port))
    client(port)


@CLIENTS
@pytest.mark.parametrize("allow_hosts", ["loopback", "127.0.0.1"])
def test_what_is_allowed_gets_through(client: Callable[[int], None], port: int, allow_hosts: str) -> None:
    """Loopback is allowed by its word or as the literal host."""
    with offline(allow_hosts):
        client(port)


def test_an_exempt_context_gets_through(port: int) -> None:
    """A session that may execute reaches the outside; the same process without its context does not."""
    with offline():
        token = may_execute.set(True)
        by_socket(port)
        may_execute.reset(token)
        blocked(lambda: by_socket(port))


def test_threads_without_context_are_blocked(port: int) -> None:
    """The guard holds for the whole process, also where no context variable leads."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            by_socket(port)
        except NetworkBlockedError as error:
            errors.append(error)

    with offline():
        thread = threading.Thread(target=run, name="worker-7")
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert "127.0.0.1" in str(errors[0])


def test_the_error_says_all_that_is_needed(port: int) -> None:
    """What was tried, where, under which cassette, and what to do."""
    with offline():
        text = str(blocked(lambda: by_urllib(port)))
    assert f"connect to 127.0.0.1:{port}" in text
    assert "during an offline replay of weather" in text
    assert f"{shown_path(__file__)}:" in text
    assert "in by_urllib" in text
    assert "decorate it with @boundary" in text
    assert "allow_hosts={'loopback'}" in text


def by_library(sock: socket.socket) -> Callable[..., None]:
    """A function of a library that connects."""
    namespace: dict[str, Any] = {"sock": sock}
    source = "def fetch(*address):\n    sock.connect(*address)\n"
    exec(compile(source, "/x/site-packages/client.py", "exec"), namespace)
    fetch: Callable[..., None] = namespace["fetch"]
    return fetch


@pytest.mark.parametrize(
    ("connecting", "named"),
    [
        (lambda sock: sock.connect, "worker-7"),
        (by_library, "/x/site-packages/client.py:2 in fetch (a library"),
    ],
)
def test_the_error_of_a_thread_without_your_code(
    connecting: Callable[[socket.socket], Callable[..., None]], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When none of your code is on the stack, the thread is named, or the library that is there."""
    caught: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: caught.append(str(args.exc_value)))
    with offline(), socket.socket() as sock:
        thread = threading.Thread(target=connecting(sock), args=[OUTSIDE], name="worker-7")
        thread.start()
        thread.join()
    assert named in caught[0]


def test_two_guards_must_both_allow(port: int) -> None:
    """What one guard allows is still refused by another; both sessions are named and told."""
    told: list[str] = []
    outer = offline("loopback", name="outer", on_block=lambda _: told.append("outer"))
    inner = offline(name="inner", on_block=lambda _: told.append("inner"))
    with outer:
        with inner:
            assert "replay of inner" in str(blocked(lambda: by_socket(port)))
            with socket.socket() as sock:
                assert "replay of outer and inner" in str(blocked(lambda: sock.connect(OUTSIDE)))
        by_socket(port)
    assert told == ["inner", "outer", "inner"]


def test_one_guard_answers_alone(port: int) -> None:
    """While a session answers for the caller alone, the guards of other sessions aren't asked."""
    own, asked = Guard(name="own", allow_hosts=("loopback",)), list[str]()

    def exempt() -> bool:
        asked.append("other")
        return False

    with guarding(Guard(name="other"), exempt, lambda: own), guarding(own, lambda: False, lambda: own):
        by_socket(port)
        with socket.socket() as sock:
            assert "replay of own\n" in str(blocked(lambda: sock.connect(OUTSIDE)))
    assert not asked


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: socket.getaddrinfo("example.com", 443),
        lambda: socket.gethostbyname("example.com"),
        lambda: socket.gethostbyname_ex("example.com"),
        lambda: socket.gethostbyaddr("192.0.2.1"),
        lambda: socket.getnameinfo(("192.0.2.1", 9), 0),
        lambda: socket.create_connection(("example.com", 443)),
        lambda: socket.socket().connect(("example.com", 443)),
        lambda: send_by_name("sendmsg", [b"x"], [], 0),
        lambda: socket.socket().connect_ex((b"example.com", 443)),
        lambda: send_by_name("sendto", b"x", 0),
        lambda: socket.getaddrinfo(b"example.com", 443),
    ],
)
def test_names_are_not_looked_up(attempt: Callable[[], object]) -> None:
    """No resolver is asked, in either direction."""
    with offline("other.org"):
        error = str(blocked(attempt))
    assert "reach example.com" in error or "look up 192.0.2.1" in error


@pytest.mark.parametrize("method", ["sendto", "sendmsg"])
def test_datagrams_are_blocked(method: str) -> None:
    """What needs no connection is refused as well."""
    with offline(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if method == "sendto":
            error = blocked(lambda: sock.sendto(b"x", OUTSIDE))
        else:
            error = blocked(lambda: sock.sendmsg([b"x"], [], 0, OUTSIDE))
    assert "send to 192.0.2.1:9" in str(error)


def test_connected_sockets_go_on() -> None:
    """Messages on a socket pair have no address and are nobody's business."""
    left, right = socket.socketpair()
    with offline(), left, right:
        left.sendmsg([b"x"])
        assert right.recv(1) == b"x"


def test_an_allowed_name_opens_its_addresses(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses that the resolver gives for an allowed name may be connected to, and no others."""

    def resolver(table: dict[str, str]) -> Callable[..., Any]:
        """A name service of the test's own, which raises the event that the real one raises."""

        def getaddrinfo(host: Any, port: Any, *hints: int) -> Any:
            sys.audit("socket.getaddrinfo", host, port, *hints)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (table.get(host, host), port))]

        return getaddrinfo

    monkeypatch.setattr("_socket.getaddrinfo", resolver({"api.example.com": "127.0.0.1", "other.org": "127.0.0.2"}))
    with offline("*.example.com"):
        blocked(lambda: by_socket(port))
        by_urllib(port, host="api.example.com")
        by_socket(port)
        blocked(lambda: socket.socket().connect(("127.0.0.2", port)))
    with offline("*.example.com"):
        blocked(lambda: by_socket(port))


@pytest.mark.parametrize("ask", [socket.gethostbyname, lambda name: socket.gethostbyname_ex(name)[2][0]])
def test_the_older_resolver_functions_count_too(port: int, ask: Callable[[str], str]) -> None:
    """Localhost as a literal name: its address is open once it was looked up."""
    with offline("localhost"):
        blocked(lambda: by_socket(port))
        assert socket.gethostbyname_ex("localhost")[0]
        by_socket(port)
        assert ask("localhost").startswith("127.")


def test_resolvers_are_restored() -> None:
    """The last guard to close leaves the socket modules as they were."""
    before = socket.gethostbyname, vars(socket)["_socket"].getaddrinfo
    with offline(), offline():
        assert socket.gethostbyname is not before[0]
    assert (socket.gethostbyname, vars(socket)["_socket"].getaddrinfo) == before


@pytest.mark.parametrize(
    ("allow_hosts", "host", "port", "allowed"),
    [
        ("api.openai.com", "API.OpenAI.com.", None, True),
        ("api.openai.com", "evil-api.openai.com", None, False),
        ("*.example.com", "a.b.example.com", None, True),
        ("*.example.com", "example.com", None, False),
        ("*.example.com", "badexample.com", None, False),
        ("192.0.2.1", "::ffff:192.0.2.1", None, True),
        ("2001:DB8::1", "2001:db8:0::1", None, True),
        ("fe80::1", "fe80::1%eth0", None, True),
        ("loopback", "localhost", None, True),
        ("loopback", "127.8.9.1", None, True),
        ("loopback", "::1", None, True),
        ("loopback", "::ffff:127.0.0.1", None, True),
        ("loopback", "0.0.0.0", None, True),
        ("loopback", "192.0.2.1", None, False),
        ("loopback", "localhost.example.com", None, False),
        ("localhost", "127.0.0.1", None, False),
        ("subprocess", "example.com", None, False),
        ("api.example.com:443", "api.example.com", 443, True),
        ("api.example.com:443", "api.example.com", 80, False),
        ("api.example.com:443", "api.example.com", None, True),  # to look it up
        ("api.example.com", "api.example.com", 80, True),
        ("*.example.com:443", "a.example.com", 443, True),
        ("*.example.com:443", "a.example.com", 80, False),
        ("[::1]:8080", "::1", 8080, True),
        ("[::1]:8080", "::1", 80, False),
        ("loopback:8080", "127.0.0.1", 8080, True),
        ("loopback:8080", "127.0.0.1", 80, False),
        ("program:5432", "program", 5432, True),
        ("program:db:5432", "db", 5432, True),
    ],
)
def test_hosts_are_matched_as_hosts(allow_hosts: str, host: str, port: int | None, allowed: bool) -> None:
    """One spelling per host, no look-alikes; with a port, an entry opens that port alone, without one all ports."""
    assert Guard(name="weather", allow_hosts=[allow_hosts]).allows_host(host, port) is allowed


@pytest.mark.parametrize(
    "entry", ["a:0", "a:65536", "a:b", "subprocess:1", "*", "*.", "", "a.*.com", "a b", "unix:///tmp/x", "program:"]
)
def test_what_is_no_host_is_refused(entry: str) -> None:
    """An entry of `allow_hosts` that is not a host would silently allow nothing."""
    with pytest.raises(ConfigurationError, match="without scheme or path"):
        Guard(name="weather", allow_hosts=[entry])


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("https://me:hunter2@api.openai.com", "api.openai.com:443"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
        ("tcp://db:5432", "db:5432"),
        ("program:https://api.openai.com/v1", "program:api.openai.com:443"),
        ("api.openai.com/v1", "api.openai.com"),
    ],
)
def test_urls_are_refused_with_the_host(entry: str, wanted: str) -> None:
    """A URL or a path is refused; the message shows the host to write in its place, and no password."""
    with pytest.raises(ConfigurationError, match=re.escape(f"write {wanted!r}")) as refused:
        Guard(name="weather", allow_hosts=[entry])
    assert "hunter2" not in str(refused.value)


@CLIENTS
def test_other_ports_of_a_host_are_refused(client: Callable[[int], None], port: int) -> None:
    """A port that is allowed opens no other port of its host, by name or by number, and the error shows what would."""
    other = port - 1
    with offline(f"127.0.0.1:{other}", f"localhost:{other}"):
        error = blocked(lambda: client(port))
    assert f"allow_hosts={{'loopback:{port}'}}" in str(error)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_allowed_port_gets_through(port: int, host: str) -> None:
    """The port of an entry is open at the addresses that the name of the entry stands for."""
    with offline(f"{host}:{port}"):
        by_urllib(port, host)


async def test_servers_may_listen(port: int) -> None:
    """Binding and listening are not reaching out; only connecting is."""
    with offline():
        with HTTPServer(("127.0.0.1", 0), Hello):
            pass
        for host in ("localhost", "127.0.0.1", None):
            server = await asyncio.start_server(lambda _reader, writer: writer.close(), host, 0)
            server.close()
            await server.wait_closed()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
def test_unix_sockets_count_as_loopback(tmp_path: Path) -> None:
    """They stay on the machine, but lead out of the process."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        with offline(), socket.socket(socket.AF_UNIX) as sock:
            error = blocked(lambda: sock.connect(path))
        with offline("loopback"), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
    assert "AF_UNIX" in str(error)
    assert "allow_hosts={'loopback'}" in str(error)


SPAWNS = [
    lambda: subprocess.run([sys.executable, "-c", "", "sk-secret"], check=True),
    lambda: os.system("true sk-secret"),
    lambda: os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", "", "sk-secret"], os.environ), 0),
    lambda: os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", "", "sk-secret"]),
]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
@pytest.mark.parametrize("spawn", SPAWNS[:3])
@pytest.mark.process
def test_processes_are_not_started(spawn: Callable[[], object]) -> None:
    """A child could reach out, so it needs to be allowed; its command line may hold secrets and is not shown."""
    with offline("loopback"):
        text = str(blocked(spawn))
    with offline("subprocess"):
        spawn()
    assert "start the process" in text
    assert "@boundary" in text
    assert "HTTP" not in text
    assert text.endswith("let replays start processes:  allow_hosts={'subprocess'}")
    assert "sk-secret" not in text


@pytest.mark.parametrize("event", ["os.exec", "os.spawn", "os.startfile", "os.startfile/2", "pty.spawn"])
def test_every_way_to_start_a_process_is_known(event: str) -> None:
    """The events that cannot be tried in a test are at least refused by name."""
    with offline():
        assert "'sh'" in str(blocked(lambda: sys.audit(event, ["/bin/sh", "-c", "x"])))
        assert "''" in str(blocked(lambda: sys.audit(event, b"")))


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_keeps_the_guard() -> None:
    """Forking is allowed, because the child is as offline as its parent."""
    with offline():
        child = os.fork()
        if child == 0:
            code = 1
            try:
                socket.getaddrinfo("example.com", 443)
            except NetworkBlockedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_emulated_socket_pair_is_allowed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no socket pairs, the standard library connects to itself; event loops need that."""

    def pair() -> None:
        by_socket(port)

    assert isinstance(by_socket, types.FunctionType)
    monkeypatch.setattr(caller, "PAIR_MAKERS", {by_socket.__code__})
    with offline():
        pair()


def test_a_path_as_the_program_is_understood(tmp_path: Path) -> None:
    """Programs are named whatever they are given as."""
    with offline():
        assert "'tool'" in str(blocked(lambda: sys.audit("os.system", tmp_path / "tool")))
