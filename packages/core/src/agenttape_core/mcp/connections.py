"""The real connection to a server: made when it's recorded or must send something, held until the client is done."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import anyio

from agenttape_core.mcp.wire import answer_of, id_of, plain_of, way_of
from agenttape_core.session.context import passing_on

Connect = Callable[[], AbstractAsyncContextManager[Any]]
CLOSED = {"closed": True}  # the answer of a server that has gone away
_GREETING = frozenset({"initialize", "notifications/initialized", "logging/setLevel"})
"""The messages that a server must have had before it answers others."""


class Connection:
    """A connection to a server, held in a separate task: only there may it be left.

    `arrived` is awaited with each message of the server that isn't an awaited answer. `ended` is called when the server
    has gone away and no request waits, or with the error when the transport has failed.
    """

    def __init__(
        self,
        connect: Connect,
        arrived: Callable[[Any], Awaitable[None]],
        ended: Callable[[Exception | None], object],
    ) -> None:
        self._connect = connect
        self._arrived = arrived
        self._ended = ended
        self._real: Any = None
        self._starting = asyncio.Lock()
        self._holding, self._receiving = anyio.CancelScope(), anyio.CancelScope()
        self._is_closing = False
        self._holder: asyncio.Task[None] | None = None
        self._greeting: list[Any] = []
        self._awaited: dict[Any, asyncio.Future[dict[str, Any]]] = {}

    @property
    def is_open(self) -> bool:
        """True if there is one, and no greeting of the client is left to be sent."""
        return self._real is not None and not self._greeting

    def session_id(self) -> str | None:
        """Return the id that the server has given the session; `None` before it has."""
        found: str | None = self._real[2]() if self._real is not None else None
        return found

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

    async def open(self) -> None:
        """Connect. Raises the error of the transport."""
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.get_running_loop().create_task(self._hold(opened))
        try:
            self._real = await opened
        except CancelledError:  # the client waits no longer: what was begun is left as it should be
            self._holding.cancel()
            raise

    async def send(self, message: Any) -> None:
        """Send a message, and connect and greet the server first if that has not been done.

        If the server is about to go away, so has it for the message.
        """
        async with self._starting:
            if self._real is None:
                await self.open()
            while self._greeting:
                await self._greet(self._greeting.pop(0))
        try:
            await self._send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            answer = self._awaited.get(id_of(message))
            if answer is not None and not answer.done():
                answer.set_result(CLOSED)

    async def _greet(self, message: Any) -> None:
        request_id = id_of(message) if way_of(message) == "request" else None
        if request_id is not None:
            self.awaits(request_id)
        await self._send(message)
        if request_id is not None:
            await self.answer(request_id)
            self.forget(request_id)

    async def _send(self, message: Any) -> None:
        with passing_on():
            await self._real[1].send(message)

    async def end_input(self) -> None:
        """Let the server see the end of the requests."""
        if self._real is not None:
            await self._real[1].aclose()

    async def close(self) -> bool:
        """End it, and return whether there was one. Raises the error of the transport."""
        self._is_closing = True
        self._receiving.cancel()
        if self._holder is None:
            return False
        try:
            await asyncio.wait([self._holder])
        except CancelledError:
            self._holding.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._holder])
            raise
        if not self._holder.cancelled():
            self._holder.result()
        return True

    async def _hold(self, opened: asyncio.Future[Any]) -> None:
        try:
            with self._holding:
                async with PassedOn(self._connect()) as real:
                    if not opened.done():
                        opened.set_result(real)
                    with self._receiving:
                        await self._receive(real[0])
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
            elif self._is_closing or not isinstance(error, Exception):
                raise
            else:
                self._ended(error)

    async def _receive(self, messages: Any) -> None:
        async for message in messages:
            answer = None
            if not isinstance(message, Exception) and way_of(message) == "response":
                answer = self._awaited.get(id_of(message))
            if answer is None:
                await self._arrived(message)
            elif not answer.done():
                answer.set_result(answer_of(message))
        waiting = [answer for answer in self._awaited.values() if not answer.done()]
        for answer in waiting:
            answer.set_result(CLOSED)
        if not waiting:
            self._ended(None)
        await anyio.sleep_forever()  # if it has gone because the transport fails, that's still to come


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
