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
        self._sending = asyncio.Lock()  # one message after another
        self._holding, self._receiving = anyio.CancelScope(), anyio.CancelScope()
        self._closing = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None
        self._has_gone = False
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
        except CancelledError:  # the client waits no longer: leave the transport properly
            self._holding.cancel()
            raise

    async def send(self, message: Any) -> None:
        """Send a message, and connect and greet the server first if that has not been done.

        Messages are sent in order. If the server is about to go away, so has it for the message.
        """
        async with self._sending:
            if self._real is None:
                await self.open()
            while self._greeting:
                greeting = self._greeting.pop(0)
                answer = self._awaits(greeting)
                await self._send(greeting)
                if answer is not None:
                    await answer
                    self.forget(id_of(greeting))
            try:
                await self._send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                answer = self._awaited.get(id_of(message))
                if answer is not None and not answer.done():
                    answer.set_result(CLOSED)

    async def ask(self, message: Any) -> dict[str, Any]:
        """Send a request, and return the answer when it has come; `CLOSED` if the server has gone away."""
        answer = self._awaits(message)
        assert answer is not None
        await self.send(message)
        return await answer

    def _awaits(self, message: Any) -> asyncio.Future[dict[str, Any]] | None:
        """Await the answer to a request from now on, just before it's sent."""
        if way_of(message) != "request":
            return None
        answer = self._awaited[id_of(message)] = asyncio.get_running_loop().create_future()
        if self._has_gone:
            answer.set_result(CLOSED)
        return answer

    async def _send(self, message: Any) -> None:
        with passing_on():
            await self._real[1].send(message)

    async def end_input(self) -> None:
        """Let the server see the end of the requests."""
        async with self._sending:
            if self._real is not None:
                await self._real[1].aclose()

    def stop(self) -> None:
        """Stop receiving: the client has left."""
        self._receiving.cancel()

    async def close(self) -> bool:
        """End it, and return whether there was one. Raises the error of the transport."""
        self._closing.set()
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
                    await self._closing.wait()  # if the server has gone as the transport fails, that's still to come
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
            elif self._closing.is_set() or not isinstance(error, Exception):
                raise
            else:
                self._ended(error)

    async def _receive(self, messages: Any) -> None:
        async for message in messages:
            if self._receiving.cancel_called:
                return
            answer = None
            if not isinstance(message, Exception) and way_of(message) == "response":
                answer = self._awaited.get(id_of(message))
            if answer is None:
                await self._arrived(message)
            elif not answer.done():
                answer.set_result(answer_of(message))
        self._has_gone = True
        waiting = [answer for answer in self._awaited.values() if not answer.done()]
        for answer in waiting:
            answer.set_result(CLOSED)
        if not (waiting or self._receiving.cancel_called):
            self._ended(None)


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
