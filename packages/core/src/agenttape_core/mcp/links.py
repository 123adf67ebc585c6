"""The streams of a client that asks an MCP server, and what becomes of each request on them."""

from __future__ import annotations

import asyncio
import json
import math
import re
from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import anyio

from agenttape_core.errors import UnrecordedCallError
from agenttape_core.integration import (
    Boundary,
    ExecutedCall,
    Plain,
    Session,
    SessionCall,
    Slot,
    aintercept,
    below,
    current_session,
    note_side_effect,
)
from agenttape_core.mcp.connections import CLOSED, Connect, Connection, PassedOn
from agenttape_core.mcp.wire import id_of, plain_of, response, way_of, with_token, without_token

_COVERING = frozenset({"chat", "completion", "embeddings", "retrieval", "memory", "tool"})
"""The kinds of boundaries that are recorded as a whole, with their requests to a server."""
_IS_RECORDED: Slot[bool] = Slot(lambda session: any(row.name.startswith(_PREFIX) for row in session.source.entries))
_TOOLS: Slot[dict[str, _Tools]] = Slot(lambda _: {})
"""The tools of each server, by its identity: a client may connect again for each call."""


@asynccontextmanager
async def taped(connect: Connect, given: Any, *, has_session_id: bool = False) -> AsyncIterator[Any]:
    """Connect to a server and record its requests; a replay connects only for a request that must really be sent.

    `given`, the first argument of the transport, identifies the server. With `has_session_id`, the connection has a
    function for the id of its session in addition to its streams.
    """
    session = _session()
    if session is None:
        async with connect() as streams:
            yield streams
        return
    link = _Link(connect, _server_of(given))
    parts = (link.read, _Writer(link), *((link.connection.session_id,) if has_session_id else ()))
    if session.is_replay or session.extension(_IS_RECORDED):
        async with anyio.create_task_group():  # as a transport has one: what is raised inside comes in a group
            try:
                yield parts
            finally:
                await link.close()
        return
    async with PassedOn(connect()) as real:
        await session.scheduler.continues()
        link.connection.attach(real)
        try:
            yield parts
        finally:
            await link.close()
    await session.scheduler.continues()


def _session() -> Session | None:
    """Return the session that a request belongs to; `None` if it's sent unchanged."""
    session = current_session()
    if session is None or session.closed or not session.auto or not _in_asyncio():
        return None
    if session.is_replay and session.source.entries and not session.extension(_IS_RECORDED):
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

    def __init__(self, connect: Connect, server: _Server) -> None:
        self.connection = Connection(connect, self._arrived, self._ended)
        self._server = server
        self._to_client, self.read = anyio.create_memory_object_stream[Any](math.inf)
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[Any, _Sent] = {}  # the requests that the server is working on, by their ids
        self._early: list[dict[str, Any]] = []
        """Messages that the server sent while no request was open: the next call gets them."""
        self._of_recording: set[Any] = set()  # the ids of recorded requests of the server, whose answers are dropped

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
        elif way == "notification" and not self.connection.is_open:
            self.connection.greet_later(message)
        else:
            note_side_effect(f"asked {_label_of(self._server)}")
            await self.connection.send(message)

    async def _ask(self, session: Session, message: Any) -> None:
        plain, request_id = plain_of(message), id_of(message)
        method, params = plain["method"], plain.get("params") or {}
        tools = session.extension(_TOOLS).setdefault(_label_of(self._server), _Tools())
        name = _name_of(method, params)
        session_call = session.cross(
            _boundary_of(method, tools),
            name,
            _body_of(method, params, self._server),
            position=below(session, name),
            is_idempotent=method == _CALL_TOOL and tools.may_be_called_again(name),
        )
        if not session_call.is_replayed:
            await self._execute(session_call, message)
        elif not self.connection.is_open:
            self.connection.greet_later(message)
        answering = asyncio.get_running_loop().create_task(self._answer(session_call, request_id, method, tools))
        self._tasks.add(answering)
        answering.add_done_callback(self._tasks.discard)

    async def _execute(self, session_call: ExecutedCall, message: Any) -> None:
        """Send a request; who has made it gets what goes wrong then."""
        request_id = id_of(message)
        self._calls[request_id] = _Sent(session_call)
        self.connection.awaits(request_id)
        try:
            with session_call.executing():
                note_side_effect(f"asked {_label_of(self._server)}")
                await self.connection.send(message)
        except (Exception, CancelledError) as error:
            self._forget(request_id)
            session_call.raised(error)
            raise

    async def _answer(self, session_call: SessionCall, request_id: Any, method: str, tools: _Tools) -> None:
        """Give the client the answer to a request when it has come."""

        async def execute() -> dict[str, Any]:
            try:
                await self._awaits(request_id)
                return await self.connection.answer(request_id)
            finally:
                self._forget(request_id)

        async def again(effect: dict[str, Any]) -> None:
            message = with_token(effect, request_id)
            if way_of(message) == "request":
                self._of_recording.add(id_of(message))
            self._deliver(message)

        try:
            answer = await aintercept(session_call, execute, again)
        except Exception as error:  # noqa: BLE001 - of a function of the user's that stands for the server
            answer = _failed(str(error), of_tool=method == _CALL_TOOL)
        finally:
            self._forget(request_id)
        if answer == CLOSED:
            self._to_client.close()
        else:
            tools.learn(method, answer)
            self._deliver(response(answer, request_id))

    async def _awaits(self, request_id: Any) -> None:
        """Let effects of a call come from now on: first the messages that came before it."""
        sent = self._calls[request_id]
        while self._early:
            effect = self._early.pop(0)
            if not await sent.call.effect_comes(effect):
                self._early.insert(0, effect)
                break
        sent.is_awaited.set()

    def _forget(self, request_id: Any) -> None:
        self.connection.forget(request_id)
        if (sent := self._calls.pop(request_id, None)) is not None:
            sent.is_awaited.set()

    async def _arrived(self, message: Any) -> None:
        """Pass on the server's unsolicited messages, and record them with the call that they belong to."""
        if not isinstance(message, Exception) and way_of(message) != "response":
            token = (plain_of(message).get("params") or {}).get("progressToken")
            while not await self._comes(message, token):
                pass
        self._deliver(message)

    async def _comes(self, message: Any, token: Any) -> bool:
        """Wait until a message may reach the client, as an effect of a call; return false if that has ended before."""
        waiting = [each for each in self._calls if not self.connection.is_answered(each)]
        request_id = token if token in waiting else next(reversed(waiting), None)
        if request_id is None:
            self._early.append(without_token(message, None))
            return True
        sent = self._calls[request_id]
        await sent.is_awaited.wait()
        return request_id in self._calls and await sent.call.effect_comes(without_token(message, request_id))

    def _ended(self) -> None:
        if not self._calls:  # else the calls say so, each in its turn
            self._to_client.close()

    def _deliver(self, message: Any) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client has gone
            self._to_client.send_nowait(message)

    async def close(self) -> None:
        """End what still waits, and the connection if it was made here."""
        waiting = list(self._tasks)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
        self._to_client.close()
        await self.connection.close()


class _Sent:
    """A request that the server works on: its call, and whether effects of the call can have their place yet."""

    def __init__(self, call: ExecutedCall) -> None:
        self.call = call
        self.is_awaited = asyncio.Event()


class _Writer:
    """The stream that a client writes to. `link` gets its output."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    async def send(self, message: Any) -> None:
        """Send a message."""
        await self._link.send(message)

    def close(self) -> None:
        """Have no effect: the connection ends with its block."""

    async def aclose(self) -> None:
        """Let the server see the end of the requests."""
        await self._link.connection.end_input()

    def clone(self) -> Self:
        """Return the same stream."""
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


# The comparable form of a request to an MCP server, and the answers that replace a server's.

_CALL_TOOL = "tools/call"
_LIST_TOOLS = "tools/list"
_PREFIX = "mcp."  # the names of calls other than tool calls begin with it
_HINTS = ("readOnlyHint", "idempotentHint")
_INTERNAL_ERROR = -32603  # https://www.jsonrpc.org/specification#error_object
_PYTHON = re.compile(r"(python|pypy)[\d.]*(\.exe)?", re.IGNORECASE)
_OF_RUN = ("progressToken", "traceparent", "tracestate")
_OF_CLIENT = "io.modelcontextprotocol/"  # the facts under which a client names itself and its version in each request

_Server = dict[str, Plain]  # a server as requests name it: the words that start it, or its address


def _server_of(given: Any) -> _Server:
    """Return how requests name a server."""
    if isinstance(given, str):
        url = urlsplit(given)
        return {"host": url.hostname or "", "port": url.port, "path": url.path}
    command = Path(str(getattr(given, "command", ""))).name
    python = _PYTHON.fullmatch(command)
    return {
        "command": python[1].lower() if python else command.removesuffix(".exe"),
        "arguments": [_portable(str(word)) for word in getattr(given, "args", ())],
    }


def _label_of(server: _Server) -> str:
    """Return a server in words."""
    if "host" in server:
        return f"{server['host']}{server['path']}"
    arguments = server["arguments"]
    assert isinstance(arguments, list)
    return " ".join(map(str, [server["command"], *arguments[:2]]))


def _portable(word: str) -> str:
    path = Path(word)
    if not path.is_absolute():
        return word
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name


def _name_of(method: str, params: dict[str, Any]) -> str:
    """Return the name of the boundary: the tool, or the method for all but the calls of tools."""
    return str(params.get("name", "")) if method == _CALL_TOOL else _PREFIX + method.replace("/", ".")


def _body_of(method: str, params: dict[str, Any], server: _Server) -> dict[str, Plain]:
    """Return the comparable form of a request."""
    params = {key: value for key, value in params.items() if value is not None}
    meta = params.pop("_meta", None)
    if isinstance(meta, dict):
        kept = {key: value for key, value in meta.items() if key not in _OF_RUN and not key.startswith(_OF_CLIENT)}
        params |= {"_meta": kept} if kept else {}
    if method == _CALL_TOOL:
        name = params.pop("name", "")
        return {"name": name, "arguments": params.pop("arguments", None) or {}, **params, "server": server}
    if method == "initialize":
        params = {}
    return {"method": method, **({"params": params} if params else {}), "server": server}


class _Tools:
    """The tools of a server, from its lists of them."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def learn(self, method: str, answer: dict[str, Any]) -> None:
        """Learn from the answer to a request, if it was one for the tools."""
        if method != _LIST_TOOLS:
            return
        for tool in (answer.get("result") or {}).get("tools") or ():
            self._known[tool.get("name", "")] = tool

    def may_be_called_again(self, name: str) -> bool:
        """Return whether a tool declares that it only reads, or is safe to repeat."""
        hints = self._known.get(name, {}).get("annotations") or {}
        return any(hints.get(hint) is True for hint in _HINTS)

    def result(self, name: str, value: Any) -> dict[str, Any]:
        """Return a tool's answer from its intended result."""
        if isinstance(value, dict) and ("content" in value or "result" in value or "error" in value):
            return {"result": value} if "content" in value else value
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        result: dict[str, Any] = {"content": [{"type": "text", "text": said}], "isError": False}
        schema = self._known.get(name, {}).get("outputSchema")
        if schema is not None:
            is_wrapped = list(schema.get("properties") or ()) == ["result"]
            result["structuredContent"] = {"result": value} if is_wrapped else value
        return {"result": result}


def _failed(said: str, *, of_tool: bool) -> dict[str, Any]:
    """Return the answer of a server that couldn't fulfill a request: for a tool, it's in its result."""
    if of_tool:
        return {"result": {"content": [{"type": "text", "text": said}], "isError": True}}
    return {"error": {"code": _INTERNAL_ERROR, "message": said}}


def _boundary_of(method: str, tools: _Tools) -> Boundary:
    """Return the boundary of a request."""
    of_tool = method == _CALL_TOOL

    def missed(_: Any, unrecorded: UnrecordedCallError) -> dict[str, Any]:
        return _failed(unrecorded.said, of_tool=of_tool)

    def faked(session_call: Any, value: Any) -> dict[str, Any]:
        return tools.result(session_call.request.name, value)

    return Boundary("tool", missed=missed, faked=faked) if of_tool else Boundary("call", missed=missed)
