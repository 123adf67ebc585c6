"""Threads of tracers reach their own hosts through the guard, and nothing else does."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import NetworkBlockedError
from agenttape_core.guard import Guard, tracers
from agenttape_core.integration.patching import register_tracer

if TYPE_CHECKING:
    from pathlib import Path

in_background = threading.local()


@pytest.mark.parametrize("now", [True, False])
def test_only_in_the_background(now: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host and the addresses that were found for it are open to the background only."""

    def guard(*allow_hosts: str) -> Guard:
        """A guard that lets threads with the mark reach the tracer's host."""
        return Guard(
            name="weather",
            allow_hosts=allow_hosts,
            background=["tracer.example"],
            in_background=lambda: getattr(in_background, "now", False),
        )

    asked = guard("api.example")
    asked.remember("tracer.example", ["192.0.2.1"])
    asked.remember("api.example", ["192.0.2.2"])
    monkeypatch.setattr(in_background, "now", now, raising=False)
    assert asked.allows_host("tracer.example") is now
    assert asked.allows_host("192.0.2.1") is now
    assert asked.allows_host("api.example")
    assert asked.allows_host("192.0.2.2")
    assert not asked.allows_host("other.example")


@pytest.mark.parametrize("tracing", [True, False])
def test_registered_hosts(tracing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of no session reaches a registered host; the session itself does if tracing is asked for."""
    monkeypatch.setattr(tracers, "_providers", [])
    register_tracer(lambda: ["127.0.0.1"])
    path = tmp_path / "empty.yaml"
    with use_cassette(path, mode="all"):
        pass
    connected: list[bool] = []

    def connect() -> None:
        with closing(socket.create_connection(address)):
            connected.append(True)

    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address: Any = server.getsockname()
        if not tracing:
            stack.enter_context(pytest.raises(NetworkBlockedError))
        stack.enter_context(use_cassette(path, allow_hosts={"tracing"} if tracing else ()))
        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        assert connected == [True]
        connect()
    assert connected == ([True, True] if tracing else [True])
