"""The streams of a client that asks an MCP server, and what becomes of each request on them."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import anyio

from agenttape_core.integration import (
    ExecutedCall,
    Session,
    SessionCall,
    Slot,
    aintercept,
    below,
    current_session,
    note_side_effect,
)
from agenttape_core.mcp.connections import CLOSED, Connect, Connection
from agenttape_core.mcp.streams import RecordedStream, ReplayedStream, Stream
from agenttape_core.mcp.wire import (
    CALL_TOOL,
    CONNECT,
    CONNECTING,
    PREFIX,
    Server,
    Tools,
    body_of,
    boundary_of,
    failed,
    id_of,
    label_of,
    name_of,
    plain_of,
    response,
    server_of,
    way_of,
    with_token,
    without_token,
)
from agenttape_core.scheduling import timers_of_ours
from agenttape_core.schema import RecordedError
from agenttape_core.session.recorded_errors import rebuild_error, record_error

_COVERING = frozenset({"chat", "completion", "embeddings", "retrieval", "memory", "tool"})
"""The kinds of boundaries that are recorded as a whole, with their requests to a server."""
_RECORDED: Slot[frozenset[str]] = Slot(
    lambda session: frozenset(row.name for row in session.source.entries if row.name.startswith(PREFIX))
)
"""The names of the recorded calls that aren't of tools."""
_RAISED = "raised"  # the key of an error of the transport, among the messages of a client
_LEAVING = 2.0
"""Seconds for a server to read all that was sent, once the client leaves: as `mcp` gives it to end."""
_TOOLS: Slot[dict[str, Tools]] = Slot(lambda _: {})
"""The tools of each server, by its identity: a client may connect again for each call."""


@asynccontextmanager
async def taped(connect: Connect, transport: str, given: Any, *, has_session_id: bool = False) -> AsyncIterator[Any]:
    """Connect to a server and record that; a replay connects only for a request that must really be sent.

    `given`, the first argument of the transport, identifies the server. With `has_session_id`, the connection has a
    function for the id of its session in addition to its streams.
    """
    session = _session()
    if session is None:
        async with connect() as streams:
            yield streams
        return
    link = _Link(session, connect, server_of(given))
    try:
        await link.open(transport)
        with link.scope:
            async with anyio.create_task_group():  # as a transport has one: errors inside come in a group
                yield (link.read, _Writer(link), *((link.connection.session_id,) if has_session_id else ()))
    finally:
        await link.close()


def _session() -> Session | None:
    """Return the session that a request belongs to; `None` if it's sent unchanged."""
    session = current_session()
    if session is None or session.closed or not session.auto or not _in_asyncio():
        return None
    if session.is_replay and session.source.entries and not session.extension(_RECORDED):
        return None  # it was recorded before there was this
    around = session.around()
    return None if around is not None and around.boundary.kind in _COVERING else session


def _in_asyncio() -> bool:
    """Return False under trio, which has no place in the order of a recording."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


class _Link:
    """The middle between a client and a server. `server` is as requests name it."""

    def __init__(self, session: Session, connect: Connect, server: Server) -> None:
        self.connection = Connection(connect, self._arrived, self._ended)
        self.scope = anyio.CancelScope()
        """The block of the client, which is cancelled if the transport fails."""
        self._session = session
        self._server = server
        self._to_client, self.read = anyio.create_memory_object_stream[Any](math.inf)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._calls: dict[Any, _Sent] = {}  # the requests that the server is working on, by their ids
        self._has_gone = False
        self._waiting = 0  # the number of requests that the client awaits
        self._stream = Stream(session, server)
        self._of_recording: set[Any] = set()  # the ids of recorded requests of the server, whose answers are dropped
        self._failure: Exception | None = None

    async def open(self, transport: str) -> None:
        """Connect, or replay that. Raises the error of the transport."""
        recorded = self._session.extension(_RECORDED)
        if recorded and CONNECT not in recorded:
            return  # it was recorded before connections were
        call = self._session.cross(
            CONNECTING,
            CONNECT,
            {"transport": transport, "server": self._server},
            position=below(self._session, CONNECT),
        )
        self._stream = (
            ReplayedStream(
                self._session, self._server, call, pass_on=self._comes_again, fail=self._fail, begin=self._begin
            )
            if call.is_replayed
            else RecordedStream(self._session, self._server, call)
        )
        await self._stream.open(self.connection.open)

    async def send(self, message: Any) -> None:
        """Send a message of the client: replay a request, or send and record it.

        Raises `CassetteMissError` if a request was not recorded, and may not be sent.
        """
        way = way_of(message)
        session = _session()
        if way == "request" and session is not None:
            await self._ask(session, message)
        elif way == "response" and id_of(message) in self._of_recording:
            self._of_recording.discard(id_of(message))
        elif way == "notification" and not self._stream.is_recorded and not self.connection.is_open:
            self.connection.greet_later(message)
        else:
            note_side_effect(f"asked {label_of(self._server)}")
            self._send(self.connection.send, message)

    def _send(self, sending: Callable[..., Awaitable[None]], *message: Any) -> None:
        """Send something while the program continues, as it does in a replay."""

        async def send() -> None:
            try:
                await sending(*message)
            except Exception as error:  # noqa: BLE001 - of a transport, it may be any
                self._fail(error)

        task = self._begin(send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def end_input(self) -> None:
        """Let the server see the end of the requests, once they are sent."""
        self._send(self.connection.end_input)

    async def _ask(self, session: Session, message: Any) -> None:
        plain = plain_of(message)
        method, params = plain["method"], plain.get("params") or {}
        tools = session.extension(_TOOLS).setdefault(label_of(self._server), Tools())
        name = name_of(method, params)
        session_call = session.cross(
            boundary_of(method, tools),
            name,
            body_of(method, params, self._server),
            position=below(session, name),
            is_idempotent=method == CALL_TOOL and tools.may_be_called_again(name),
        )
        if session_call.is_replayed:
            self.connection.greet_later(message)
        self._waiting += 1
        self._begin(self._answer(session_call, message, method, tools))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer(self, session_call: SessionCall, message: Any, method: str, tools: Tools) -> None:
        """Give the client the answer to a request when it has come."""
        request_id = id_of(message)

        async def execute() -> dict[str, Any]:
            assert not session_call.is_replayed
            self._calls[request_id] = _Sent(session_call)
            note_side_effect(f"asked {label_of(self._server)}")
            try:
                return await self.connection.ask(message)
            except Exception as error:
                self._fail(error)  # it can't be reached
                raise

        async def again(effect: dict[str, Any]) -> None:
            self._comes_again(effect, request_id)

        try:
            answer = await aintercept(session_call, execute, again)
        except Exception as error:  # noqa: BLE001 - of a function of the user's that stands for the server
            answer = failed(str(error), of_tool=method == CALL_TOOL)
        finally:
            self._forget(request_id)
            self._waiting -= 1
        self._stream.follows(session_call)
        if answer == CLOSED:
            self._has_gone = True
        else:
            tools.learn(method, answer)
            self._deliver(response(answer, request_id))
        if self._has_gone and not self._waiting:  # or the client would leave while answers are still to come
            self._to_client.close()

    def _forget(self, request_id: Any) -> None:
        self.connection.forget(request_id)
        if (sent := self._calls.pop(request_id, None)) is not None:
            sent.has_ended.set()

    async def _arrived(self, message: Any) -> None:
        """Pass on the server's unsolicited messages, and record them with the call that they belong to."""
        deliver = functools.partial(self._deliver, message)
        if isinstance(message, Exception):
            await self._comes_between({_RAISED: record_error(message, self._session.codec).model_dump()}, deliver)
        elif way_of(message) == "response":
            deliver()
        else:
            token = (plain_of(message).get("params") or {}).get("progressToken")
            while not await self._comes(message, token, deliver):
                pass

    async def _comes(self, message: Any, token: Any, deliver: Callable[[], None]) -> bool:
        """Deliver a message when it may come, as an effect of a call; return false if that has ended before."""
        await self._follows_answers()
        waiting = [each for each in self._calls if not self.connection.is_answered(each)]
        request_id = token if token in waiting else next(reversed(waiting), None)
        if request_id is None:
            await self._comes_between(without_token(message, None), deliver)
            return True
        call = self._calls[request_id].call
        # By its number, it's no piece of a text that the next effect continues.
        return await call.effect_comes({str(len(call.effects) + 1): without_token(message, request_id)}, deliver)

    async def _follows_answers(self) -> None:
        """Wait until the answers have reached the client that came before."""
        for request_id, sent in list(self._calls.items()):
            if self.connection.is_answered(request_id):
                await sent.has_ended.wait()

    async def _comes_between(self, plain: dict[str, Any], deliver: Callable[[], None]) -> None:
        """Deliver something when it may come while the server works on no request."""
        await self._follows_answers()
        await self._stream.comes(plain, deliver)

    def _comes_again(self, plain: dict[str, Any], request_id: Any = None) -> None:
        """Pass on something recorded; by its place, except in recordings of earlier versions."""
        if len(plain) == 1 and (place := next(iter(plain)))[:1].isdigit():
            plain = plain[place]
        if plain == CLOSED:
            self._to_client.close()
        elif _RAISED in plain:
            self._deliver(rebuild_error(RecordedError.model_validate(plain[_RAISED]), self._session.codec))
        else:
            message = with_token(plain, request_id)
            if way_of(message) == "request":
                self._of_recording.add(id_of(message))
            self._deliver(message)

    def _ended(self, error: Exception | None) -> None:
        self._begin(self._ends(error))

    async def _ends(self, error: Exception | None) -> None:
        if error is None:
            await self._comes_between(CLOSED, self._to_client.close)
        else:
            await self._stream.fails(error, functools.partial(self._fail, error))

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self.scope.cancel()

    def _deliver(self, message: Any) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client has gone
            self._to_client.send_nowait(message)

    async def close(self) -> None:
        """End all that still waits, and the connection. Raises the error of the transport."""
        self._to_client.close()
        self.connection.stop()
        for task in self._tasks - self._sending - {self._stream.failing}:
            task.cancel()
        try:
            await self._ends_sending()
        finally:
            await self._end()
        if self._failure is not None:
            raise self._failure

    async def _ends_sending(self) -> None:
        """Wait until the server has read all that was sent, or has had time to."""
        if not self._sending:
            return
        with timers_of_ours():  # there is none in a replay
            over = asyncio.get_running_loop().call_later(_LEAVING, self._stop_sending)
        try:
            await asyncio.wait(self._sending)
        finally:
            over.cancel()

    def _stop_sending(self) -> None:
        for task in self._sending:
            task.cancel()

    async def _end(self) -> None:
        self._stop_sending()
        self._stream.leaves()
        with anyio.CancelScope(shield=True):
            while self._tasks:
                await asyncio.wait(self._tasks)
        try:
            if await self.connection.close():
                await self._session.scheduler.continues()
        except Exception as error:
            await self._stream.fails(error)
            raise
        finally:
            self.read.close()
            self._stream.close()


class _Sent:
    """A request until the client has its answer, and its call."""

    def __init__(self, call: ExecutedCall) -> None:
        self.call = call
        self.has_ended = asyncio.Event()


class _Writer:
    """The stream that a client writes to. `link` gets its output."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._is_closed = False

    async def send(self, message: Any) -> None:
        """Send a message."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        await self._link.send(message)

    def close(self) -> None:
        """Have no effect: the connection ends with its block."""

    async def aclose(self) -> None:
        """Let the server see the end of the requests."""
        self._is_closed = True
        self._link.end_input()

    def clone(self) -> Self:
        """Return the same stream."""
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
