"""Messages of JSON-RPC as `mcp` has them, as plain data, and back, and the comparable form of requests.

Versions 1 and 2 of the package differ here.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from agenttape_core.errors import UnrecordedCallError
from agenttape_core.integration import Boundary, Plain

Way = Literal["request", "notification", "response"]


def way_of(message: Any) -> Way:
    """Return the sort of a message."""
    inner = _inner(message)
    if not hasattr(inner, "method"):
        return "response"
    return "request" if hasattr(inner, "id") else "notification"


def id_of(message: Any) -> Any:
    """Return the id of a request, or of the request that a response answers."""
    return getattr(_inner(message), "id", None)


def plain_of(message: Any) -> dict[str, Any]:
    """Return a message as plain data."""
    plain: dict[str, Any] = _inner(message).model_dump(by_alias=True, mode="json", exclude_unset=True)
    return plain


def message_of(plain: dict[str, Any]) -> Any:
    """Return the `SessionMessage` of plain data."""
    return import_module("mcp.shared.message").SessionMessage(message=_adapter().validate_python(plain))


def response(answer: dict[str, Any], request_id: Any) -> Any:
    """Return the message with an answer."""
    return message_of({"jsonrpc": "2.0", "id": request_id, **answer})


def answer_of(message: Any) -> dict[str, Any]:
    """Return the `result` or the `error` of a response."""
    plain = plain_of(message)
    return {key: plain[key] for key in ("result", "error") if key in plain}


def without_token(message: Any, request_id: Any) -> dict[str, Any]:
    """Return a server's messages during a request as plain data, without the number of the request."""
    plain = plain_of(message)
    plain.pop("jsonrpc", None)
    params = plain.get("params")
    if isinstance(params, dict) and params.get("progressToken") == request_id:
        plain["params"] = {key: value for key, value in params.items() if key != "progressToken"}
    return plain


def with_token(plain: dict[str, Any], request_id: Any) -> Any:
    """Return the message that `without_token` was made of, for the request of this run."""
    params = plain.get("params")
    if plain.get("method") == "notifications/progress" and isinstance(params, dict):
        plain = {**plain, "params": {"progressToken": request_id, **params}}
    return message_of({"jsonrpc": "2.0", **plain})


def _inner(message: Any) -> Any:
    inner = message.message
    return getattr(inner, "root", inner)  # of version 1, where a message is the root of a model


@cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    try:
        types = import_module("mcp_types")
    except ImportError:
        types = import_module("mcp.types")
    return TypeAdapter(types.JSONRPCMessage)


# The comparable form of a request to an MCP server, and the answers that replace a server's.

CALL_TOOL = "tools/call"
_LIST_TOOLS = "tools/list"
CONNECT = "mcp.connect"
CONNECTING = Boundary("call", split=lambda value: [value], missed=lambda *_: None)
"""A connection without a recording opens, if a miss is answered: each of its requests is then refused."""
PREFIX = "mcp."  # the names of calls other than tool calls begin with it
_HINTS = ("readOnlyHint", "idempotentHint")
_INTERNAL_ERROR = -32603  # https://www.jsonrpc.org/specification#error_object
_PYTHON = re.compile(r"(python|pypy)[\d.]*(\.exe)?", re.IGNORECASE)
_OF_RUN = ("progressToken", "traceparent", "tracestate")
_OF_CLIENT = "io.modelcontextprotocol/"  # the facts under which a client names itself and its version in each request

Server = dict[str, Plain]  # a server as requests name it: the words that start it, or its address


def server_of(given: Any) -> Server:
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


def label_of(server: Server) -> str:
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


def name_of(method: str, params: dict[str, Any]) -> str:
    """Return the name of the boundary: the tool, or the method for all but the calls of tools."""
    return str(params.get("name", "")) if method == CALL_TOOL else PREFIX + method.replace("/", ".")


def body_of(method: str, params: dict[str, Any], server: Server) -> dict[str, Plain]:
    """Return the comparable form of a request."""
    params = {key: value for key, value in params.items() if value is not None}
    meta = params.pop("_meta", None)
    if isinstance(meta, dict):
        kept = {key: value for key, value in meta.items() if key not in _OF_RUN and not key.startswith(_OF_CLIENT)}
        params |= {"_meta": kept} if kept else {}
    if method == CALL_TOOL:
        name = params.pop("name", "")
        return {"name": name, "arguments": params.pop("arguments", None) or {}, **params, "server": server}
    if method == "initialize":
        params = {}
    return {"method": method, **({"params": params} if params else {}), "server": server}


class Tools:
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


def failed(said: str, *, of_tool: bool) -> dict[str, Any]:
    """Return the answer of a server that couldn't fulfill a request: for a tool, it's in its result."""
    if of_tool:
        return {"result": {"content": [{"type": "text", "text": said}], "isError": True}}
    return {"error": {"code": _INTERNAL_ERROR, "message": said}}


def boundary_of(method: str, tools: Tools) -> Boundary:
    """Return the boundary of a request."""
    of_tool = method == CALL_TOOL

    def missed(_: Any, unrecorded: UnrecordedCallError) -> dict[str, Any]:
        return failed(unrecorded.said, of_tool=of_tool)

    def faked(session_call: Any, value: Any) -> dict[str, Any]:
        return tools.result(session_call.request.name, value)

    return Boundary("tool", missed=missed, faked=faked) if of_tool else Boundary("call", missed=missed)
