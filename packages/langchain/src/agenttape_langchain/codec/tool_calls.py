"""Tool calls inside messages, without the keys that all of them have.

A call is written as `{name, args, id}`: the constant `type` and keys whose value is None are left out. A dict without
exactly the keys that LangChain's factories give it is written pair by pair under `$dict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttape_core.errors import UnreadableValueError
from agenttape_core.integration.codecs import Nested, expect_dict

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttape_core.integration import Plain

_KEYS = {
    "tool_call": ("name", "args", "id", "type"),
    "invalid_tool_call": ("name", "args", "id", "error", "type"),
    "tool_call_chunk": ("name", "args", "id", "index", "type"),
}


def _writer(kind: str) -> Callable[[Any, Nested], Plain]:
    keys = _KEYS[kind]

    def write_call(call: dict[str, Any], nested: Nested) -> Plain:
        if tuple(call) == keys and call["type"] == kind:
            return {key: nested(call[key]) for key in keys[:-1] if call[key] is not None}
        return {"$dict": [[nested(key), nested(value)] for key, value in call.items()]}

    return lambda calls, nested: [write_call(call, nested) for call in calls]


def _reader(kind: str) -> Callable[[Plain, Nested], Any]:
    keys = _KEYS[kind]

    def read_call(plain: Plain, nested: Nested) -> Any:
        if "$dict" in expect_dict(plain, kind):
            return nested(plain)
        if unknown := plain.keys() - keys[:-1]:
            raise UnreadableValueError(kind, f"expected the keys {', '.join(keys[:-1])}, found {sorted(unknown)}")
        call = {key: nested(plain.get(key)) for key in keys}
        call["type"] = kind
        return call

    def read_calls(plain: Plain, nested: Nested) -> Any:
        if type(plain) is not list:
            raise UnreadableValueError(f"{kind}s", f"expected a list, found {type(plain).__name__}")
        return [read_call(item, nested) for item in plain]

    return read_calls


_FIELDS = {
    "tool_calls": "tool_call",
    "invalid_tool_calls": "invalid_tool_call",
    "tool_call_chunks": "tool_call_chunk",
}

WRITERS = {field: _writer(kind) for field, kind in _FIELDS.items()}
"""Writers of the fields that hold tool calls."""
READERS = {field: _reader(kind) for field, kind in _FIELDS.items()}
"""Readers of the fields that hold tool calls."""
