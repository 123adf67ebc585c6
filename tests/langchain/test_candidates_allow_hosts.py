"""Allowed hosts with a candidate: its own calls connect, and nothing else does, by any client and in any thread."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, BaseMessage

from agenttape_core import use_cassette
from agenttape_core.errors import NetworkBlockedError

from .fakes import NativeChat, World


def _ahttpx(port: int) -> None:
    async def get() -> None:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            await client.get(f"http://127.0.0.1:{port}")

    asyncio.run(get())


def _loop(port: int) -> None:
    async def connect() -> None:
        await asyncio.open_connection("localhost", port)  # looked up in a thread of the loop

    asyncio.run(connect())


def _datagram(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"CHARGE", ("127.0.0.1", port))


CLIENTS: dict[str, Callable[[int], Any]] = {
    "socket": lambda port: socket.create_connection(("127.0.0.1", port), timeout=5),
    "datagram": _datagram,
    "httpx, awaited": _ahttpx,
    "event loop": _loop,
}


def in_thread(act: Callable[[], Any]) -> None:
    """Act in a thread of its own."""
    thread = Thread(target=act)
    thread.start()
    thread.join(20)


def in_pool(act: Callable[[], Any]) -> None:
    """Act in a thread of a pool."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(act).result(20)


THREADS: dict[str, Callable[[Callable[[], Any]], None]] = {
    "here": lambda act: act(),
    "thread": in_thread,
    "pool": in_pool,
    "loop": lambda act: asyncio.run(asyncio.to_thread(act)),
}
CASES = [*((client, "here") for client in CLIENTS), *(("socket", thread) for thread in THREADS if thread != "here")]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that nobody may reach but the candidate."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def reached(listener: socket.socket) -> bool:
    """Return whether somebody has connected, and take the connection."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def recorded(world: World, tmp_path: Path) -> Path:
    """The recording of a question."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        NativeChat(world=world).invoke("Hi")
    return tmp_path / "run.yaml"


def connecting(port: int, listener: socket.socket, asked: list[bool]) -> Any:
    """Return the answer of a candidate that connects, and notes whether it got through."""

    def reply(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            asked.append(reached(listener))
        return AIMessage("said")

    return reply


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_nothing_but_the_candidate_connects(
    recorded: Path, world: World, listener: socket.socket, case: tuple[str, str]
) -> None:
    """The candidate's call reaches its server; the program does not, before it and after it."""
    client, thread = case
    port, asked = listener.getsockname()[1], list[bool]()

    def act() -> None:
        with suppress(BaseException):  # as a program does that swallows everything: a halt too, alone or in a group
            CLIENTS[client](port)

    candidate = NativeChat(world=world, reply=connecting(port, listener, asked))
    with (
        pytest.raises(NetworkBlockedError, match="outside of the live calls"),
        use_cassette(recorded, candidate=candidate) as session,
    ):
        THREADS[thread](act)
        NativeChat(world=world).invoke("Hi")
        THREADS[thread](act)
    assert (asked, reached(listener)) == ([True], False)
    assert len(session.report.blocked) >= 2


def test_a_list_holds_for_the_candidate_too(recorded: Path, world: World, listener: socket.socket) -> None:
    """Where hosts are listed, the candidate reaches no other one."""
    asked: list[bool] = []
    candidate = NativeChat(world=world, reply=connecting(listener.getsockname()[1], listener, asked))
    with (
        pytest.raises(NetworkBlockedError, match="with other allowed hosts"),
        use_cassette(recorded, candidate=candidate, allow_hosts=["api.example.com"]),
    ):
        NativeChat(world=world).invoke("Hi")
    assert (asked, reached(listener)) == ([], False)
