"""A recorded HTTP request, sent again to an ASGI application in this process: no port is opened.

ASGI 3.0: https://asgi.readthedocs.io/en/latest/specs/www.html, and `lifespan.html` beside it.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from agenttape_core.asgi.exchange import Exchange
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.restarting import Source
from agenttape_core.session import current_session, runs

_RUN_SPECIFIC = re.compile(
    r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
)
"""Ids and times, which are new in each run."""

_PATIENCE, _PAUSE = 10.0, 0.02
"""Seconds to wait for work that outlives an answer, and between two checks of the recordings left."""
_STEPS = 10  # steps of the event loop until a task of the application has learned that the client is gone


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of an ASGI application to a request that was sent again."""

    status: int
    body: bytes
    exchange: Exchange  # the recorded request, with the recorded answer

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    @property
    def differences(self) -> list[str]:
        """The lines that differ from the recorded answer, apart from ids and times; empty if it wasn't kept."""
        recorded = self.exchange
        if recorded.status is None or recorded.answer is None:
            return []
        return list(_differences(f"{recorded.status}\n{recorded.answer}", f"{self.status}\n{self.text}"))


def again(app: Any, source: Source) -> Callable[[], Any] | None:
    """Return a function that sends a recorded request again.

    Returns `None` for a recording that no request began. Raises `ConfigurationError` if the recording is broken, or a
    header isn't a name and a value.
    """
    if not source.is_request:
        return None
    exchange = Exchange.of_plain(source.input, source.cassette)
    more = [_pair(header) for header in source.headers]
    given = {name for name, _ in more}
    kept = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in exchange.headers.items()]
    asked = _Asked(exchange, [*(pair for pair in kept if pair[0] not in given), *more])
    return lambda: asked.ask(app)


class _Asked:
    """A request that is sent again. `exchange` is the recorded request, and `headers` are sent."""

    def __init__(self, exchange: Exchange, headers: list[tuple[bytes, bytes]]) -> None:
        self._exchange = exchange
        self._headers = headers
        self._status = 0
        self._body = bytearray()
        self._leaves = asyncio.Event()

    async def ask(self, app: Any) -> Answered:
        """Send the request, between the startup and the shutdown of the application."""
        async with _Lifespan(app) as state:
            before = asyncio.all_tasks()
            await app({**self._scope(), "state": dict(state)}, self._receive(), self._send)
            await _outlived(asyncio.all_tasks() - before)
        return Answered(self._status, bytes(self._body), self._exchange)

    def _scope(self) -> dict[str, Any]:
        body = str(len(self._exchange.body)).encode()
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self._exchange.method,
            "scheme": "http",
            "path": self._exchange.path,
            "raw_path": self._exchange.path.encode(),
            "query_string": self._exchange.query.encode("latin-1"),
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-length", body), *self._headers],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }

    def _receive(self) -> Any:
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                await self._until_left()
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": self._exchange.body, "more_body": False}

        return receive

    async def _send(self, message: dict[str, Any]) -> None:
        if self._leaves.is_set():
            return  # as a server does when the client has gone
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            self._look()
            for _ in range(_STEPS if self._leaves.is_set() else 0):  # whoever waits for that is told before it goes on
                await asyncio.sleep(0)

    async def _until_left(self) -> None:
        """Wait until the client goes away, where the recorded one did; others stay until the answer has ended.

        The application is not waited for then.
        """
        self._look()
        while not self._leaves.is_set():
            waits = asyncio.ensure_future(self._leaves.wait())
            try:
                await asyncio.wait([waits], timeout=None if self._exchange.left is None else _PAUSE)
            finally:
                waits.cancel()
            self._look()

    def _look(self) -> None:
        """Look whether the run has come to where the recorded client went away."""
        session, left = current_session(), self._exchange.left
        if left is None or session is None:
            return
        calls = len(session.ledger.replayed_at) + len(session.ledger.executed())
        if calls >= left and len(self._body.decode(errors="replace")) >= len(self._exchange.answer or ""):
            self._leaves.set()


async def _outlived(tasks: set[asyncio.Task[Any]]) -> None:
    """Wait for work that outlives the answer, as long as recordings are left for it: some of it may never end."""
    session, left = current_session(), _PATIENCE
    while tasks and left > 0 and session is not None and runs.has_unused(session):
        _, tasks = await asyncio.wait(tasks, timeout=_PAUSE)
        left -= _PAUSE


class _Lifespan:
    """The startup and the shutdown of an application; one that supports neither is left alone."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._running: asyncio.Task[None] | None = None
        self._state: dict[str, Any] = {}

    async def __aenter__(self) -> dict[str, Any]:
        """Return the state that the application gives its requests."""
        await self._apart(self._begin())
        return self._state

    async def __aexit__(self, *failed: object) -> None:
        await self._apart(self._end())

    async def _apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Work in a separate context: work before the requests of a server isn't part of the recorded run."""
        await asyncio.get_running_loop().create_task(work, context=Context())

    async def _begin(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self._state}
        self._running = asyncio.ensure_future(self._app(scope, self._messages.get, self._answers.put))
        await self._pass("startup")

    async def _end(self) -> None:
        await self._pass("shutdown")
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._running

    async def _pass(self, event: str) -> None:
        if self._running is None or self._running.done():
            return
        await self._messages.put({"type": f"lifespan.{event}"})
        answer = asyncio.ensure_future(self._answers.get())
        await asyncio.wait([answer, self._running], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
        elif answer.result()["type"] == f"lifespan.{event}.failed":
            raise ConfigurationError(f"the application failed at its {event}: {answer.result().get('message', '')}")


def _pair(header: str) -> tuple[bytes, bytes]:
    name, colon, value = header.partition(":")
    if not (name.strip() and colon):
        raise ConfigurationError(f"--header {name}: expected a name and a value, as in 'Authorization: Bearer dev'")
    return name.strip().lower().encode("latin-1"), value.strip().encode("latin-1")


def _differences(recorded: str, found: str) -> Iterator[str]:
    """Yield the lines in which two answers differ, ids and times apart."""
    before, now = (_RUN_SPECIFIC.sub("…", text).splitlines() for text in (recorded, found))
    if before != now:
        yield "the server's answer differs from its recording:"
        yield from difflib.unified_diff(before, now, "recorded", "now", lineterm="", n=1)
