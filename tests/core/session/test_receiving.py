"""A replay takes nothing from other processes by its sockets: neither data, nor datagrams, nor connections."""

from __future__ import annotations

import _socket
import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import NetworkBlockedError

from .world import OlderThread, look, refused

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("recorded")]

OTHER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
commands, answers = sys.argv[1:]
said = str(listener.getsockname()[1])
kept = []
while True:
    with open(answers, "w") as file:
        file.write(said)
    with open(commands) as file:
        word, _, port = file.read().partition(" ")
    said = ""
    if word == "accept":
        kept.append(listener.accept()[0])
    elif word == "push":
        kept[-1].sendall(b"hello")
    elif word == "close":
        kept.pop().close()
    elif word == "connect":
        kept.append(socket.create_connection(("127.0.0.1", int(port))))
        kept[-1].sendall(b"hello")
    elif word == "answered":
        said = kept[-1].recv(9).decode()
    elif word == "datagram":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"hello", ("127.0.0.1", int(port)))
"""


class Other:
    """Another process, which pushes data, sends datagrams and connects when it is told to.

    It's told by files that are opened each time: a replay refuses to use what's open already.
    """

    def __init__(self, commands: Path, answers: Path) -> None:
        self.commands, self.answers = commands, answers
        self.port = int(answers.read_text())

    def __call__(self, command: str) -> str:
        """Let it do something, and wait for that."""
        self.commands.write_text(command)
        return self.answers.read_text()

    def connected(self) -> socket.socket:
        """Connect to it."""
        sock = socket.create_connection(("127.0.0.1", self.port))
        self("accept")
        return sock


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Other]:
    """The other process."""
    folder = tmp_path_factory.mktemp("other")
    commands, answers = folder / "commands", folder / "answers"
    os.mkfifo(commands)
    os.mkfifo(answers)
    with subprocess.Popen([sys.executable, "-S", "-c", OTHER, str(commands), str(answers)]) as process:
        yield Other(commands, answers)
        process.kill()


def with_timeout(sock: socket.socket) -> bytes:
    """Wait for a while only."""
    sock.settimeout(60)
    return sock.recv(9)


@pytest.mark.parametrize(
    "way",
    [
        lambda sock: sock.recv(9),
        lambda sock: sock.recv_into(bytearray(9)),
        lambda sock: sock.recvfrom(9),
        lambda sock: sock.recvmsg(9),
        lambda sock: sock.makefile().readline(),
        with_timeout,
        lambda sock: _socket.socket.recv(sock, 9),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_data_on_an_open_connection(other: Other, way: Callable[[Any], object], is_there: bool) -> None:
    """It is refused like a send, whether it has come already or would be waited for."""
    with other.connected() as sock:
        if is_there:
            other("push")
        with refused("receive from the open"):
            way(sock)


def test_allowed_connections_go_on(other: Other) -> None:
    """As for sends."""
    with other.connected() as sock, use_cassette("c", allow_hosts={f"127.0.0.1:{other.port}"}):
        look("Paris")
        other("push")
        assert sock.recv(9) == b"hello"


@pytest.mark.parametrize("use", [lambda sock: sock.recv(9), lambda sock: sock.send(b"x")], ids=["recv", "send"])
def test_sockets_of_c(other: Other, use: Callable[[Any], object]) -> None:
    """Libraries with socket classes of their own inherit from the class in C."""
    with closing(_socket.socket()) as sock:
        sock.connect(("127.0.0.1", other.port))
        other("accept")
        other("push")
        with refused("the open connection"):
            use(sock)


def test_the_end_of_a_connection_is_nothing(other: Other) -> None:
    """A server may close a connection that is idle while another test replays."""

    async def program() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", other.port)
        other("accept")
        async with use_cassette("c"):
            look("Paris")
            other("close")
            with closing(writer):
                return await reader.read()

    with other.connected() as sock:
        other("close")
        with use_cassette("c"):
            look("Paris")
            assert sock.recv(9) == b""
    assert asyncio.run(program()) == b""


@pytest.mark.parametrize("way", ["reader", "sock_recv"])
def test_data_in_an_event_loop(other: Other, way: str) -> None:
    """A reader that is older than the session gets nothing in it."""

    async def program() -> None:
        with other.connected() as sock:
            sock.setblocking(False)
            reader, writer = await asyncio.open_connection("127.0.0.1", other.port)
            other("accept")
            async with use_cassette("c", on_unused="ignore"):
                with suppress(ConnectionError), closing(writer):
                    if way == "reader":
                        other("push")
                        assert await reader.read(9) == b""
                    else:
                        await asyncio.get_running_loop().sock_recv(sock, 9)

    with pytest.raises(NetworkBlockedError, match="receive from the open connection"):
        asyncio.run(program())


def test_loops_and_pairs_stay_in_the_process() -> None:
    """A loop that is woken from a thread, socket pairs and datagrams of this process are not judged."""
    one, two = socket.socketpair()
    with one, two, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("127.0.0.1", 0))
            sender.sendto(b"own", receiver.getsockname())
            with use_cassette("c") as session:
                look("Paris")
                assert asyncio.run(asyncio.to_thread(abs, -1)) == 1
                one.sendall(b"x")
                assert two.recv(1) == b"x"
                assert receiver.recv(9) == b"own"
    assert session.report.blocked == ()


@pytest.mark.parametrize("way", [lambda sock: sock.recvfrom(9), lambda sock: sock.recv(9)])
def test_datagrams(other: Other, way: Callable[[socket.socket], object]) -> None:
    """Those of other processes are refused, unless their host is allowed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        other(f"datagram {sock.getsockname()[1]}")
        with refused("receive a datagram from 127"):
            way(sock)
        with use_cassette("c", allow_hosts={"loopback"}):
            look("Paris")
            assert sock.recv(9) == b"hello"


def test_the_program_accepts_no_connection(other: Other) -> None:
    """Of another process, that is, unless its host is allowed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other(f"connect {listener.getsockname()[1]}")
        with refused("accept a connection"):
            listener.accept()
        other(f"connect {listener.getsockname()[1]}")
        with use_cassette("c", allow_hosts={"loopback"}):
            look("Paris")
            with listener.accept()[0] as accepted:
                assert accepted.recv(9) == b"hello"
        with socket.create_connection(listener.getsockname()), use_cassette("c"):
            look("Paris")
            listener.accept()[0].close()  # that of this process


def test_a_loop_of_the_program_accepts_no_connection(other: Other) -> None:
    """A server that begins in the block is part of the replay."""

    async def program() -> None:
        refused = asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda *_: refused.set())
        async with use_cassette("c", on_unused="ignore"):
            server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
            other(f"connect {server.sockets[0].getsockname()[1]}")
            await refused.wait()
            server.close()

    with pytest.raises(NetworkBlockedError, match="accept a connection"):
        asyncio.run(program())


def test_a_server_beside_the_replay_serves(other: Other, older_thread: OlderThread) -> None:
    """What was begun before the session may accept, receive and answer as ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as accepted:
                accepted.sendall(accepted.recv(9).upper())

        older_thread.begin(serve)
        with use_cassette("c") as session:
            look("Paris")
            other(f"connect {listener.getsockname()[1]}")
            assert other("answered") == "HELLO"
    assert session.report.blocked == ()
