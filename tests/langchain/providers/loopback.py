"""A model service on loopback, for the wire format of any provider."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, Self, TypeAlias

JSON: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """An answer that goes back over the wire.

    Args:
        parts: The body, part by part; each goes out as one HTTP chunk.
        status: The HTTP status.
        content_type: What the parts are.
        headers: More headers.
    """

    parts: Sequence[str]
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class Wire(Protocol):
    """A provider's wire format."""

    def answer(self, path: str, body: JSON, number: int) -> Answer:
        """Answer a request; the number of the request makes every answer another."""

    def failure(self, status: int, message: str) -> Answer:
        """Answer with an error status."""

    def interruption(self, message: str) -> str:
        """Say in the middle of a stream that it goes wrong."""


class Loopback:
    """A running service.

    Args:
        wire: How it speaks.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.requests: list[JSON] = []
        self._failures: list[Answer] = []
        self._interruptions: list[tuple[int, str]] = []
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.loopback = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def fail_next(self, status: int, message: str) -> None:
        """Answer the next request with an error status."""
        self._failures.append(self.wire.failure(status, message))

    def interrupt_next(self, after: int, message: str) -> None:
        """Say in the next answer, after so many parts of it, that something went wrong, and say no more."""
        self._interruptions.append((after, message))

    def take(self, path: str, body: JSON) -> Answer:
        """Keep a request and make the answer to it."""
        with self._lock:
            self.requests.append(body)
            if self._failures:
                return self._failures.pop(0)
            answer = self.wire.answer(path, body, len(self.requests))
            if not self._interruptions:
                return answer
            after, message = self._interruptions.pop(0)
            parts = [*answer.parts[:after], self.wire.interruption(message)]
            return Answer(parts, answer.status, answer.content_type, answer.headers)

    def stop(self) -> None:
        """Take the service away; a second time does nothing."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that `server_close` waits for the answers under way
    loopback: Loopback


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        """Answer one request, and close the connection: no client shall hold one of a service that is gone."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.server.loopback.take(self.path, body)
        fixed = {"Content-Type": answer.content_type, "Transfer-Encoding": "chunked", "Connection": "close"}
        self.send_response(answer.status)
        for name, value in (fixed | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        for part in answer.parts:
            data = part.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")


def filled(schema: JSON, number: int) -> Any:
    """Make a value that satisfies a simple JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    if kind == "object":
        return {name: filled(part, number) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [filled(schema.get("items", {}), number)]
    return {"string": f"value {number}", "integer": number, "number": number + 0.5, "boolean": True}.get(kind)
