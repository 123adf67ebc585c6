"""A model service of our own: OpenAI's Chat Completions on 127.0.0.1, never the same answer twice.

Real clients talk to it without a key that costs money:

    with OpenAILoopback() as server:
        ChatOpenAI(model="gpt-5-mini", base_url=server.base_url, api_key="sk-any")

or, from the folder `examples`, `python -m weather_agent.server`. Standard library only.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from . import wire
from .policy import JSON, Policy, Turn, UseEveryTool


class OpenAILoopback:
    """A server for `/v1/chat/completions` (plain and streamed), `/v1/embeddings` and `/v1/models`.

    Args:
        policy: Decides each reply; see `policy.py`. It may be replaced while the server runs.
        delay_s: Seconds before a plain answer, and before each event of a stream.
        port: The port, or 0 for any that is free.
        same_vectors: Whether equal texts have equal vectors; else they differ from request to request.
    """

    def __init__(
        self, policy: Policy | None = None, *, delay_s: float = 0.0, port: int = 0, same_vectors: bool = False
    ) -> None:
        self.policy: Policy = policy or UseEveryTool()
        self.delay_s = delay_s
        self.same_vectors = same_vectors
        self.calls = 0
        self.requests: list[JSON] = []
        self._number = 0
        self._failures: list[Failure] = []
        self._cuts: list[int] = []
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.loopback = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """The `base_url` for a client."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def fail_next(self, status: int, times: int = 1, message: str = "failing as told") -> None:
        """Answer the next requests with an error.

        Args:
            status: The HTTP status, 400 or more.
            times: How many requests fail.
            message: The error's message.
        """
        with self._lock:
            self._failures += [Failure(status, message)] * times

    def cut_next_stream(self, after: int) -> None:
        """Break the connection of the next stream.

        Args:
            after: How many events are sent before.
        """
        with self._lock:
            self._cuts.append(after)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, and free the port; a second time does nothing."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def arrived(self) -> Failure | None:
        """Count a request; the failure that it shall get, if any."""
        with self._lock:
            self.calls += 1
            return self._failures.pop(0) if self._failures else None

    def take_numbers(self, body: JSON, count: int) -> list[int]:
        """Keep a request's body and give its completions their numbers."""
        with self._lock:
            self.requests.append(body)
            first = self._number + 1
            self._number += count
            return list(range(first, first + count))

    def take_cut(self) -> int | None:
        """After how many events the stream that begins now breaks, if it shall."""
        with self._lock:
            return self._cuts.pop(0) if self._cuts else None


class Failure(Exception):  # noqa: N818 - an answer with an error status, not an error of the server
    """An answer with an error status.

    Args:
        status: The HTTP status.
        message: What the error object says.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that `server_close` waits for the answers under way
    request_queue_size = 128
    loopback: OpenAILoopback


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        """List the models."""
        if self.path.endswith("/models"):
            self._send(200, wire.models())
        else:
            self._send(404, wire.error(404, f"Invalid URL (GET {self.path})"))

    def do_POST(self) -> None:
        """Answer one request for completions or embeddings."""
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if failure := self.server.loopback.arrived():
                raise failure
            self._answer(self._body(raw))
        except Failure as failure:
            self._send(failure.status, wire.error(failure.status, failure.message))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client hung up, which is its right

    def _body(self, raw: bytes) -> JSON:
        """The request's body, or the error that OpenAI's service answers with."""
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            raise Failure(401, "You didn't provide an API key. Send it in an Authorization header: Bearer KEY.")
        try:
            body = json.loads(raw)
        except ValueError:
            raise Failure(400, "We could not parse the JSON body of your request.") from None
        wanted = {"/chat/completions": "messages", "/embeddings": "input"}
        key = next((wanted[path] for path in wanted if self.path.endswith(path)), None)
        if key is None:
            raise Failure(404, f"Invalid URL (POST {self.path})")
        for name in ("model", key):
            if not isinstance(body, dict) or not body.get(name):
                raise Failure(400, f"Missing required parameter: '{name}'.")
        return dict(body)

    def _answer(self, body: JSON) -> None:
        loopback = self.server.loopback
        numbers = loopback.take_numbers(body, body.get("n") or 1)
        if "messages" not in body:
            self._send(200, wire.embeddings(body, 0 if loopback.same_vectors else numbers[0]))
            return
        replies = [wire.limited(loopback.policy(Turn(body, number)), body) for number in numbers]
        if body.get("stream"):
            self._stream([json.dumps(chunk) for chunk in wire.chunks(body, replies)])
        else:
            time.sleep(loopback.delay_s)
            self._send(200, wire.completion(body, replies))

    def _send(self, status: int, content: JSON) -> None:
        payload = json.dumps(content).encode()
        self._head(status, "application/json", {"Content-Length": str(len(payload))})
        self.wfile.write(payload)

    def _stream(self, events: list[str]) -> None:
        """Send server-sent events in HTTP chunks, so that a client notices when the end is missing."""
        cut = self.server.loopback.take_cut()
        self._head(200, "text/event-stream; charset=utf-8", {"Transfer-Encoding": "chunked"})
        for event in [*events, "[DONE]"][:cut]:
            time.sleep(self.server.loopback.delay_s)
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if cut is None:
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, content_type: str, more: dict[str, str]) -> None:
        # One connection per request: a client's pool never holds one of a server that is gone, nor of
        # another event loop. A short wait is asked for, so that retries in tests take no time.
        fixed = {"Content-Type": content_type, "Connection": "close", "retry-after-ms": "1"}
        self.send_response(status)
        for name, value in (fixed | more).items():
            self.send_header(name, value)
        self.end_headers()


def main() -> None:
    """Serve until interrupted; the first line printed is the base URL."""
    with OpenAILoopback() as server:
        print(server.base_url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"answered {server.calls} calls")


if __name__ == "__main__":
    main()
