"""A tool that is called by its bare function crosses no boundary: what it does outside is named, and refused later."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from langchain_core.tools import tool

from agenttape_core import use_cassette
from agenttape_core.errors import NetworkBlockedError, UnrecordedConnectionWarning

from ..kit.world import World
from .fakes import FakeChat


class Service(HTTPServer):
    """A service that counts its requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = 0


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        self.server.requests += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"sunny")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def service() -> Iterator[Service]:
    """Return a service in a thread."""
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(30)


def test_what_a_bare_function_does_outside_is_named_and_refused(service: Service, tmp_path: Path) -> None:
    """The recording names the line; the replay reaches nothing, and fails."""

    @tool
    def look(where: str) -> str:
        """Look somewhere."""
        url = f"http://127.0.0.1:{service.server_port}/{where}"
        return urllib.request.urlopen(url, timeout=30).read().decode()

    def agent() -> str:
        FakeChat(world=World()).bind_tools([look]).invoke("Where?")
        return str(look.func(where="paris"))  # as agents that write code call their tools

    with (
        pytest.warns(UnrecordedConnectionWarning, match=r"reached outside.*\n.*test_bare_functions\.py:\d+"),
        use_cassette(tmp_path / "c.yaml", mode="once"),
    ):
        assert agent() == "sunny"
    with pytest.raises(NetworkBlockedError, match="test_bare_functions"), use_cassette(tmp_path / "c.yaml"):
        agent()
    assert service.requests == 1
