"""Servers on this machine that answer in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from typing import TypeVar

S = TypeVar("S", bound=BaseServer)


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Let a server answer while inside; it is closed, and its thread has ended, at the end.

    Args:
        server: The server, bound to its port.
    """
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Hello(BaseHTTPRequestHandler):
    """Says hello to each request, in five bytes."""

    def do_GET(self) -> None:
        """Say hello."""
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


class LastingHello(Hello):
    """Says hello, and keeps its connections."""

    protocol_version = "HTTP/1.1"
