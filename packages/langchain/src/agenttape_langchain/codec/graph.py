"""LangGraph's `Command` and `Send`, which tools return. LangGraph is never imported for them, only looked up."""

from __future__ import annotations

import sys
from typing import Any

from agenttape_core import UnreadableValueError
from agenttape_core.integration import Plain, TypeCodec
from agenttape_core.integration.codecs import Nested, expect_dict

_MODULE = "langgraph.types"
_COMMAND = {"graph": None, "update": None, "resume": None, "goto": ()}


def _loaded(name: str) -> Any:
    return getattr(sys.modules.get(_MODULE), name, None)


def _is(name: str, value: Any) -> bool:
    # Exactly: a subclass would come back as its base.
    return type(value) is _loaded(name)


def _class(name: str) -> Any:
    cls = _loaded(name)
    if cls is None:
        raise UnreadableValueError(f"{_MODULE}:{name}", "LangGraph is not loaded; import it before the replay")
    return cls


def _write_command(command: Any, nested: Nested) -> Plain:
    fields = {name: getattr(command, name) for name in _COMMAND}
    return {name: nested(value) for name, value in fields.items() if not _is_default(value, _COMMAND[name])}


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _read_command(plain: Plain, nested: Nested) -> Any:
    body = expect_dict(plain, "$command")
    if unknown := body.keys() - _COMMAND.keys():
        raise UnreadableValueError("$command", f"expected the keys {', '.join(_COMMAND)}, found {sorted(unknown)}")
    return _class("Command")(**{name: nested(item) for name, item in body.items()})


def _write_send(send: Any, nested: Nested) -> Plain:
    body = {"node": nested(send.node), "arg": nested(send.arg)}
    timeout = getattr(send, "timeout", None)  # newer than the class
    return body if timeout is None else {**body, "timeout": nested(timeout)}


def _read_send(plain: Plain, nested: Nested) -> Any:
    body = {name: nested(item) for name, item in expect_dict(plain, "$send").items()}
    cls = _class("Send")
    try:
        return cls(**body)
    except TypeError as error:
        raise UnreadableValueError("$send", f"expected the keys node and arg, found {sorted(body)} ({error})") from None


CODECS: tuple[TypeCodec, ...] = (
    TypeCodec("$command", lambda value: _is("Command", value), _write_command, _read_command),
    TypeCodec("$send", lambda value: _is("Send", value), _write_send, _read_send),
)
"""LangGraph's own classes only."""
