"""Whoever watches is shown each send on a socket that is open already, and sockets are as before when nobody does."""

from __future__ import annotations

import _socket
import asyncio
import gc
import http.client
import socket
import ssl
from contextlib import ExitStack, closing
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.errors import NetworkBlockedError
from agenttape_core.guard import Guard, guarding
from agenttape_core.guard.sends import Send, watching_sends

from ..kit.serving import LastingHello, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def port() -> Iterator[int]:
    """A loopback server that keeps its connections."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), LastingHello)) as server:
        yield server.server_port


@pytest.fixture
def peers() -> Iterator[tuple[socket.socket, socket.socket, Any]]:
    """A connected client, the other end, and the address of that."""
    gc.collect()  # a guard lasts as long as what its replay has started, and until the next connection
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        server = stack.enter_context(listener.accept()[0])
        yield client, server, listener.getsockname()


def by_sendfile(sock: socket.socket, path: Path) -> None:
    """Send a file."""
    path.write_bytes(b"x")
    with path.open("rb") as file:
        sock.sendfile(file)


def by_makefile(sock: socket.socket, _: Path) -> None:
    """Write to a file that stands for the socket."""
    with sock.makefile("wb") as file:
        file.write(b"x")


def by_asyncio(sock: socket.socket, _: Path) -> None:
    """Send in an event loop, whose own sockets are not shown."""
    sock.setblocking(False)

    async def send() -> None:
        await asyncio.to_thread(int)  # wakes the loop from another thread
        await asyncio.get_running_loop().sock_sendall(sock, b"x")

    asyncio.run(send())


@pytest.mark.parametrize(
    "way",
    [
        lambda sock, _: sock.send(b"x"),
        lambda sock, _: sock.sendall(b"x"),
        lambda sock, _: sock.sendmsg((b"x",)),
        by_sendfile,
        by_makefile,
        by_asyncio,
    ],
)
def test_each_way_to_send_is_shown(
    way: Callable[[socket.socket, Path], object], peers: tuple[socket.socket, socket.socket, Any], tmp_path: Path
) -> None:
    """The socket and the other end are given, before the other end has what is sent."""
    client, server, address = peers
    seen: list[Send] = []
    with watching_sends(seen.append):
        way(client, tmp_path / "file")
    assert {(send.sock, send.to, send.is_open, send.is_answer) for send in seen} == {(client, address, True, False)}
    assert server.recv(9) == b"x"


def test_a_send_can_be_refused(peers: tuple[socket.socket, socket.socket, Any]) -> None:
    """A watcher that raises prevents it."""
    client, server, _ = peers

    def refuse(send: Send) -> None:
        raise PermissionError(send.to)

    with watching_sends(refuse), pytest.raises(PermissionError):
        client.sendall(b"x")
    client.close()
    assert server.recv(9) == b""


def test_a_pool_is_seen_and_its_server_is_told_apart(port: int) -> None:
    """A connection that was kept from before is shown; the answers of a server in this process say that they are."""
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"hello"
        seen: list[tuple[int, bool]] = []
        with watching_sends(lambda send: seen.append((send.to[1], send.is_answer))):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"hello"
        with (
            watching_sends(lambda send: seen.append((send.to[1], send.is_answer))),
            closing(http.client.HTTPConnection("127.0.0.1", port)) as other,
        ):
            other.request("GET", "/")
            other.getresponse().read()
    assert {number for number, is_answer in seen if not is_answer} == {port}
    assert len({number for number, is_answer in seen if is_answer}) == 2


def test_tls_is_shown() -> None:
    """An SSL socket writes for itself, and is shown all the same."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    seen: list[Send] = []
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as plain,
        context.wrap_socket(plain, do_handshake_on_connect=False) as sock,
        watching_sends(seen.append),
    ):
        for write in (sock.send, sock.sendall, sock.write):
            sock.setblocking(False)
            with pytest.raises(ssl.SSLWantReadError):  # its handshake has not been answered
                write(b"x")
        assert [(send.sock, send.to) for send in seen] == [(sock, listener.getsockname())] * 3


def test_what_stays_in_the_process_is_not_shown() -> None:
    """A socket pair, and a socket that is not connected, which fails as ever."""
    seen: list[Send] = []
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loose, watching_sends(seen.append):
        one.sendall(b"x")
        with pytest.raises(OSError, match=r"."):
            loose.send(b"x")
    assert seen == []


def test_datagrams_give_their_address(peers: tuple[socket.socket, socket.socket, Any]) -> None:
    """They go without a connection."""
    seen: list[tuple[Any, bool]] = []
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        watching_sends(lambda send: seen.append((send.to, send.is_open))),
    ):
        sock.sendto(b"x", peers[2])
        sock.sendto(b"x", 0, peers[2])
        sock.sendmsg([b"x"], [], 0, peers[2])
    assert seen == [(peers[2], False)] * 3


def test_sockets_are_as_before_when_the_last_watcher_has_gone(
    peers: tuple[socket.socket, socket.socket, Any],
) -> None:
    """Watchers and guards may overlap in any order; nothing is wrapped twice."""
    methods = [
        (owner, name)
        for owner in (_socket.socket, socket.socket, ssl.SSLSocket)
        for name in ("accept", "connect", "send", "sendall", "sendfile", "sendmsg", "sendto", "write")
    ]

    def state() -> list[object]:
        """Everything that could be wrapped, as it is."""
        return [vars(owner).get(name) for owner, name in methods]

    before = state()
    first: list[Send] = []
    second: list[Send] = []
    one, other, guard = watching_sends(first.append), watching_sends(second.append), ExitStack()
    one.__enter__()
    wrapped = vars(_socket.socket)["send"]
    other.__enter__()
    guard.enter_context(guarding(Guard(name="weather", allow_hosts=["loopback"]), lambda: False))
    assert vars(_socket.socket)["send"] is wrapped
    peers[0].send(b"x")
    one.__exit__(None, None, None)
    peers[0].send(b"x")
    assert (len(first), len(second)) == (1, 2)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        pytest.raises(NetworkBlockedError, match=r"reach example\.com"),
    ):
        sock.sendto(b"x", ("example.com", 9))
    other.__exit__(None, None, None)
    assert state() != before
    guard.close()
    assert state() == before
