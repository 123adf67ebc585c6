"""A service on loopback for these tests: it answers by path, and remembers what it was sent."""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain; charset=utf-8"}
SSE = {"Content-Type": "text/event-stream"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@dataclass(frozen=True)
class Answer:
    """What is sent for a path.

    Args:
        body: The whole body, or the pieces of one that is sent in HTTP chunks.
        headers: The headers besides those that frame the body.
        status: The status.
        cut: Whether the connection ends before the body does.
        waits: Whether the answer waits, after its first piece if it is sent in pieces, until it is released.
    """

    body: bytes | list[bytes] = b""
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    cut: bool = False
    waits: bool = False


ANSWERS = {
    "/plain": Answer(b"plain text", TEXT),
    "/json": Answer(json.dumps({"city": "Zürich", "sun": True}, ensure_ascii=False).encode(), JSON),
    "/untyped": Answer("kein Typ, aber Süßes".encode()),
    "/latin": Answer("Zürich".encode("latin-1"), {"Content-Type": "text/html; charset=ISO-8859-1"}),
    "/invalid": Answer(b"not \xff UTF-8", {"Content-Type": "text/plain"}),
    "/binary": Answer(PNG, {"Content-Type": "image/png"}),
    "/untyped-binary": Answer(PNG),
    "/chunked": Answer([b"one ", b"two ", b"three"], TEXT),
    "/sse": Answer([b"data: one\n\n", b"data: two\n", b"\ndata: [DONE]\n\n"], SSE),
    "/split": Answer([b"caf\xc3", b"\xa9 \xe2", b"\x82", b"\xac", b" \xf0\x9f"], SSE),
    "/gzip": Answer(gzip.compress(b'{"zipped": "text"}', mtime=0), JSON | {"Content-Encoding": "gzip"}),
    "/gzip-empty": Answer(b"", JSON | {"Content-Encoding": "gzip"}),
    "/unknown-encoding": Answer(b"as it is", TEXT | {"Content-Encoding": "x-own"}),
    "/empty": Answer(b"", TEXT),
    "/no-content": Answer(status=204),
    "/not-modified": Answer(status=304, headers={"ETag": '"1"'}),
    "/cookies": Answer(b"in", TEXT | {"Set-Cookie": "sid=opaque; Path=/; HttpOnly", "set-cookie": "theme=dark"}),
    "/missing": Answer(b'{"error": "no such thing"}', JSON, status=404),
    "/failing": Answer(b"oops", TEXT, status=503),
    "/broken": Answer([b"as far", b" as this"], TEXT, cut=True),
    "/broken-gzip": Answer(b"no gzip at all", TEXT | {"Content-Encoding": "gzip"}),
    "/slow": Answer(b"late", TEXT, waits=True),
    "/slow-stream": Answer([b"early", b"late"], TEXT, waits=True),
    "/moved": Answer(b"elsewhere", TEXT | {"Location": "/moved-again"}, status=302),
    "/moved-again": Answer(b"", {"Location": "/plain"}, status=307),
}
"""The answers by path. Others echo the request as JSON; `/guarded` does it only with a bearer's token."""


class Asked(NamedTuple):
    """A request as it arrived."""

    method: str
    target: str
    headers: Message
    body: bytes


class Service:
    """The running service."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers = dict(ANSWERS)
        self.released = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.service = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.005,), daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def stop(self) -> None:
        """Answer no more; a second time does nothing."""
        self.released.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that `server_close` waits for the answers under way
    request_queue_size = 64
    service: Service


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _handle(self) -> None:
        service, path = self.server.service, self.path.partition("?")[0]
        asked = Asked(self.command, self.path, self.headers, self._body())
        service.asked.append(asked)
        try:
            self._send(service.answers.get(path) or _echo(path, asked, len(service.asked)))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client hung up, which is its right

    do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815 - as `http.server` looks for them

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _send(self, answer: Answer) -> None:
        in_chunks = isinstance(answer.body, list)
        if answer.waits and not in_chunks:
            self.server.service.released.wait()
        self.send_response_only(answer.status)
        framing = {"Transfer-Encoding": "chunked"} if in_chunks else {"Content-Length": str(len(answer.body))}
        for name, value in {**answer.headers, **framing, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        if isinstance(answer.body, list):
            self._send_pieces(answer.body, answer)
        elif self.command != "HEAD":
            self.wfile.write(answer.body)

    def _send_pieces(self, pieces: list[bytes], answer: Answer) -> None:
        for number, piece in enumerate(pieces):
            if answer.waits and number:
                self.server.service.released.wait()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if not answer.cut:
            self.wfile.write(b"0\r\n\r\n")


def _echo(path: str, asked: Asked, number: int) -> Answer:
    if path == "/guarded" and asked.headers["Authorization"] is None:
        return Answer(b"who are you?", TEXT, status=401)
    said = {"number": number, "method": asked.method, "target": asked.target, "body": asked.body.decode("latin-1")}
    return Answer(json.dumps(said).encode(), JSON)
