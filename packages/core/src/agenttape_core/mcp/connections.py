"""The real connection to a server: made when a message must really be sent, and held until the client is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from agenttape_core.mcp.wire import answer_of, id_of, plain_of, way_of
from agenttape_core.session.context import passing_on

Connect = Callable[[], AbstractAsyncContextManager[Any]]
CLOSED = {"closed": True}  # the answer of a server that has gone away
_GREETING = frozenset({"initialize", "notifications/initialized", "logging/setLevel"})
"""The messages that a server must have had before it answers others."""


class Connection:
    """A connection to a server.

    `arrived` is awaited with each message of the server that isn't an awaited answer, and `ended` is called when the
    server has gone away.
    """

    def __init__(self, connect: Connect, arrived: Callable[[Any], Awaitable[None]], ended: Callable[[], None]) -> None:
        self._connect = connect
        self._arrived = arrived
        self._ended = ended
        self._real: Any = None
        self._starting = asyncio.Lock()
        self._closing = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._greeting: list[Any] = []
        self._awaited: dict[Any, asyncio.Future[dict[str, Any]]] = {}

    @property
    def is_open(self) -> bool:
        """True if there is one."""
        return self._real is not None

    def session_id(self) -> str | None:
        """Return the id that the server has given the session; `None` before it has."""
        found: str | None = self._real[2]() if self._real is not None else None
        return found

    def attach(self, real: Any) -> None:
        """Take a connection that another task holds."""
        self._real = real
        self._receiver = _begun(self._receive())

    def greet_later(self, message: Any) -> None:
        """Keep a message that was not sent, if a server must have it before others."""
        if plain_of(message)["method"] in _GREETING:
            self._greeting.append(message)

    def awaits(self, request_id: Any) -> None:
        """Await the answer to a request from now on, just before it's sent."""
        self._awaited[request_id] = asyncio.get_running_loop().create_future()

    async def answer(self, request_id: Any) -> dict[str, Any]:
        """Return the answer to a request when it has come; `CLOSED` if the server has gone away."""
        return await self._awaited[request_id]

    def is_answered(self, request_id: Any) -> bool:
        """Return whether the answer to a request has come: the call ends with it, and has no more effects."""
        answer = self._awaited.get(request_id)
        return answer is not None and answer.done()

    def forget(self, request_id: Any) -> None:
        """Await an answer no longer."""
        self._awaited.pop(request_id, None)

    async def send(self, message: Any) -> None:
        """Send a message, and connect first if there's no connection."""
        async with self._starting:
            if self._real is None:
                await self._start()
        with passing_on():
            await self._real[1].send(message)

    async def end_input(self) -> None:
        """Let the server see the end of the requests."""
        if self._real is not None:
            await self._real[1].aclose()

    async def close(self) -> None:
        """End it, if it was made here."""
        self._closing.set()
        if self._receiver is not None:
            self._receiver.cancel()
            await asyncio.wait([self._receiver])
        if self._holder is not None:
            await asyncio.wait([self._holder])
            if not self._holder.cancelled():
                self._holder.result()

    async def _start(self) -> None:
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._holder = _begun(self._hold(opened))
        try:
            self.attach(await opened)
        except asyncio.CancelledError:  # the client waits no longer: what was begun is left as it should be
            self._holder.cancel()
            raise
        for message in self._greeting:
            is_request = way_of(message) == "request"
            if is_request:
                self.awaits(id_of(message))
            with passing_on():
                await self._real[1].send(message)
            if is_request:
                await self.answer(id_of(message))
                self.forget(id_of(message))

    async def _hold(self, opened: asyncio.Future[Any]) -> None:
        """Hold the connection in a separate task, as the task that has entered it must leave it."""
        try:
            async with PassedOn(self._connect()) as real:
                if not opened.done():
                    opened.set_result(real)
                await self._closing.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def _receive(self) -> None:
        try:
            async for message in self._real[0]:
                answer = None
                if not isinstance(message, Exception) and way_of(message) == "response":
                    answer = self._awaited.get(id_of(message))
                if answer is None:
                    await self._arrived(message)
                elif not answer.done():
                    answer.set_result(answer_of(message))
        finally:
            for answer in self._awaited.values():
                if not answer.done():
                    answer.set_result(CLOSED)
            if not self._closing.is_set():
                self._ended()


class PassedOn:
    """A connection; all that is sent while it is made and left is recorded above, and not here."""

    def __init__(self, connection: AbstractAsyncContextManager[Any]) -> None:
        self._connection = connection

    async def __aenter__(self) -> Any:
        with passing_on():
            return await self._connection.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        with passing_on():
            return await self._connection.__aexit__(kind, error, traceback)


def _begun(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)
