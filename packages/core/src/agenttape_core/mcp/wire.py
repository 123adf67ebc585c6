"""Messages of JSON-RPC as `mcp` has them, as plain data, and back; versions 1 and 2 of the package differ here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Literal

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
