"""A server of JSON on the loopback interface, which answers programs of this machine and no page of a browser."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any, Self, cast

from agenttape_core.errors import ConfigurationError

HOST = "127.0.0.1"
_MAX_PARTS = 20_000
"""The most lists and objects in a request: a few bytes each, they take a hundred times as much memory when read."""
_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine. A page of another name may point it at this address, and would be given answers."""
_MAX_DIGITS = 10
_SECONDS = 30
"""Seconds that a client has to send its request."""


class LoopbackServer(ThreadingHTTPServer):
    """Serves on the loopback interface. As a context manager it answers in a thread until the end of the block.

    Args:
        handler: Answers requests.
        port: The port; 0 for any that is free.
        clients: The most parallel connections: each has a thread.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, handler: type[LoopbackHandler], port: int, *, clients: int) -> None:
        self._free = BoundedSemaphore(clients)
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            raise ConfigurationError(
                f"port {port} cannot be used: {error.strerror or error}\n  name another one with --port, or 0 for any"
            ) from None
        self._thread = Thread(target=self.serve_forever, args=(0.05,), name="agenttape-server", daemon=True)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a client in a separate thread, unless there are too many already."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # Its thread couldn't be started. After a Ctrl-C it may run, and then releases this itself.
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless the client has left before its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers requests with JSON, and refuses those that another site can send."""

    timeout = _SECONDS
    protocol_version = "HTTP/1.1"
    max_bytes = 4 * 1024 * 1024

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name for it
        """Don't print: standard error belongs to the command."""

    def do_GET(self) -> None:
        """Answer a GET, unless it comes from another site."""
        if not self._is_foreign():
            self.get()

    def do_POST(self) -> None:
        """Answer a POST, unless it comes from another site, or is too large."""
        if (body := self._body()) is not None:
            self.post(body)

    def get(self) -> None:
        """Answer a GET; by default, that there is none."""
        self.refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")

    def post(self, body: bytes) -> None:  # noqa: ARG002 - for those who override it
        """Answer a POST with this body; by default, that there is none."""
        self.refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")

    def _body(self) -> bytes | None:
        """Return the body of a request; `None` if it was refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > _MAX_DIGITS or int(length) > self.max_bytes:
            self.close_connection = True
            self.refuse(HTTPStatus.BAD_REQUEST, f"expected a Content-Length of at most {self.max_bytes} bytes")
            return None
        if self._is_foreign():
            self.close_connection = True
            return None
        return self.rfile.read(int(length))

    def _is_foreign(self) -> bool:
        """Refuse requests that another site can send. A program sends no Origin, which a page cannot leave out."""
        host = self.headers.get("Host", "")
        if host.removesuffix(f":{cast('LoopbackServer', self.server).server_port}").lower() not in _NAMES:
            self.refuse(HTTPStatus.FORBIDDEN, f"expected the host {HOST}, found {host[:100]!r}")
        elif self.headers.get("Origin") is not None:
            self.refuse(HTTPStatus.FORBIDDEN, "a page of a browser gets no answers: expected no Origin")
        elif "Content-Type" in self.headers and self.headers.get_content_type() != "application/json":
            self.refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected Content-Type: application/json")
        else:
            return False
        return True

    def refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answer that a request is wrong."""
        self.answer(status, {"error": problem})

    def answer(self, status: int, plain: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        """Answer with an object."""
        body = json.dumps(plain).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def object_in(body: bytes) -> Any:
    """Return the JSON of a request. Raises `ValueError` if it's none, or has too many parts."""
    if body.count(b"[") + body.count(b"{") > _MAX_PARTS:
        raise ValueError(f"expected at most {_MAX_PARTS:,} lists and objects")
    return json.loads(body, object_pairs_hook=without_duplicates)


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object, as `object_pairs_hook`. Canonical JSON has each name once.

    Raises `ValueError` if a name occurs twice: languages differ on which of the values counts.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"the name {twice!r} occurs twice in an object")
    return found
