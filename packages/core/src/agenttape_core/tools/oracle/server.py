"""A tool oracle over HTTP, on this machine alone.

`POST /tool` with `{"tool_name": ..., "args": ...}` answers 200 with an entry as in an oracle file, or 404 with the
closest one. `args_hash` may replace the arguments, and `occurrence` be added, if the caller counts. `GET /unrecorded`
counts the answered requests, and lists the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Thread
from typing import Any, Self, cast

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.oracle.lookup import Entry, ToolOracle, Unknown, is_hash, without_duplicates

HOST = "127.0.0.1"
_MAX_BYTES = 4 * 1024 * 1024
_MAX_PARTS = 20_000
"""The most lists and objects in a request: a few bytes each, they take a hundred times as much memory when read."""
_MAX_CLIENTS = 32  # the most parallel connections: each has a thread
_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine. A page of another name may point it at this address, and would be given answers."""
_MAX_DIGITS = 10
_SECONDS = 30  # seconds that a client has to send its request


class OracleServer(ThreadingHTTPServer):
    """Serves an oracle on the loopback interface.

    As a context manager it answers in a separate thread until the end of the block.

    Args:
        oracle: The oracle.
        port: The port; 0 for any that is free.
    """

    daemon_threads = True

    def __init__(self, oracle: ToolOracle, port: int = 0) -> None:
        self.oracle = oracle
        self._free = BoundedSemaphore(_MAX_CLIENTS)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise ConfigurationError(
                f"port {port} cannot be used: {error.strerror or error}\n  name another one with --port, or 0 for any"
            ) from None
        self._thread = Thread(target=self.serve_forever, args=(0.05,), name="agenttape-oracle", daemon=True)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a client in a separate thread, unless there are too many already."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except Exception:
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


class _Handler(BaseHTTPRequestHandler):
    timeout = _SECONDS
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self._is_foreign():
            return
        if self.path.rstrip("/") == "/unrecorded":
            unrecorded = [unknown.plain() for unknown in self._oracle.unrecorded]
            self._answer(
                HTTPStatus.OK,
                {"answered": self._oracle.answered, "unknown": self._oracle.unknown, "unrecorded": unrecorded},
            )
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"{self.path} is nothing; ask POST /tool, or GET /unrecorded")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or len(length) > _MAX_DIGITS or int(length) > _MAX_BYTES:
            self.close_connection = True
            self._refuse(HTTPStatus.BAD_REQUEST, f"expected a Content-Length of at most {_MAX_BYTES} bytes")
            return
        if self._is_foreign():
            self.close_connection = True
            return
        body = self.rfile.read(int(length))
        if self.path.rstrip("/") != "/tool":
            self._refuse(HTTPStatus.NOT_FOUND, f"{self.path} is nothing; ask POST /tool")
            return
        try:
            found = _found(self._oracle, body)
        except (ValueError, RecursionError, ConfigurationError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        if isinstance(found, Unknown):
            self._answer(HTTPStatus.NOT_FOUND, {"error": str(found), **found.plain()})
        else:
            self._answer(HTTPStatus.OK, found.plain())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name for it
        """Don't print: standard error belongs to the command."""

    def _is_foreign(self) -> bool:
        """Refuse requests that another site can send. An agent sends no Origin, which a page cannot leave out."""
        host = self.headers.get("Host", "")
        if host.removesuffix(f":{cast('OracleServer', self.server).server_port}").lower() not in _NAMES:
            self._refuse(HTTPStatus.FORBIDDEN, f"expected the host {HOST}, found {host[:100]!r}")
        elif self.headers.get("Origin") is not None:
            self._refuse(HTTPStatus.FORBIDDEN, "a page of a browser gets no answers: expected no Origin")
        elif "Content-Type" in self.headers and self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected Content-Type: application/json")
        else:
            return False
        return True

    @property
    def _oracle(self) -> ToolOracle:
        return cast("OracleServer", self.server).oracle

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        self._answer(status, {"error": problem})

    def _answer(self, status: HTTPStatus, plain: Mapping[str, Any]) -> None:
        body = json.dumps(plain).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _found(oracle: ToolOracle, body: bytes) -> Entry | Unknown:
    """Return the answer to the call in the body of a request.

    Raises `ValueError` if it doesn't have the form in the module's docstring, and `ConfigurationError` if the arguments
    have no canonical JSON.
    """
    if body.count(b"[") + body.count(b"{") > _MAX_PARTS:
        raise ValueError(f"expected at most {_MAX_PARTS:,} lists and objects")
    asked = json.loads(body, object_pairs_hook=without_duplicates)
    fields = asked if isinstance(asked, dict) else {}
    name, hashed, occurrence = fields.get("tool_name"), fields.get("args_hash"), fields.get("occurrence")
    if not isinstance(name, str) or ("args" in fields) == ("args_hash" in fields):
        raise ValueError('expected {"tool_name": "...", "args": {...}}, or "args_hash" in the place of "args"')
    if occurrence is not None and (type(occurrence) is not int or occurrence < 1):
        raise ValueError(f"expected an occurrence of 1 or more, found {occurrence!r}")
    if "args" in fields:
        return oracle.look_up(name, fields["args"], occurrence)
    if not is_hash(hashed):
        raise ValueError(f"expected an args_hash of 64 hex digits, found {hashed!r}")
    return oracle.look_up_hash(name, str(hashed), occurrence)
