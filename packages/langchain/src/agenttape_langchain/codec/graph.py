"""LangGraph's `Command` and `Send`, which tools return. LangGraph is never imported for them, only looked up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import BaseMessage

from agenttape_core.errors import UnreadableValueError
from agenttape_core.integration import Plain, TypeCodec
from agenttape_core.integration.codecs import Nested, expect_dict

_MODULE = "langgraph.types"
_SAME = "same"
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
    body = {name: nested(value) for name, value in fields.items() if not _is_default(value, _COMMAND[name])}
    same = _same(list(_unnamed([fields["update"], fields["goto"]])))
    return {**body, _SAME: same} if same else body


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _read_command(plain: Plain, nested: Nested) -> Any:
    body = expect_dict(plain, "$command")
    if unknown := body.keys() - _COMMAND.keys() - {_SAME}:
        raise UnreadableValueError("$command", f"expected the keys {', '.join(_COMMAND)}, found {sorted(unknown)}")
    fields = {name: nested(item) for name, item in body.items() if name != _SAME}
    command = _class("Command")
    if fields.get("graph") == command.PARENT:
        fields["graph"] = command.PARENT  # `ToolNode` compares by identity
    if _SAME in body:
        both = [fields.get(name, _COMMAND[name]) for name in ("update", "goto")]
        update, goto = _merged(both, _one_for_each(list(_unnamed(both)), body[_SAME]))
        fields |= {name: value for name, value in (("update", update), ("goto", goto)) if name in fields}
    return command(**fields)


# -- a message that stands in several places ---------------------------------------------------------------------------
#
# The graph gives a message without an id one when it takes it into the state, in place: a message that a tool puts into
# an update and sends to a node besides is one message in both, and must stay one.


def _unnamed(value: Any) -> Iterator[BaseMessage]:
    """Yield the messages without an id in a value, in its order."""
    if isinstance(value, BaseMessage):
        if value.id is None:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _unnamed(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _unnamed(item)
    elif _is("Send", value):
        yield from _unnamed(value.arg)


def _same(messages: list[BaseMessage]) -> list[list[int]]:
    """Return the places of each message that is in several."""
    places: dict[int, list[int]] = {}
    for place, message in enumerate(messages):
        places.setdefault(id(message), []).append(place)
    return [each for each in places.values() if len(each) > 1]


def _one_for_each(messages: list[BaseMessage], same: Any) -> dict[int, BaseMessage]:
    """Return the message that each of its copies refers to, by the address of the copy."""
    return {id(messages[place]): messages[places[0]] for places in same for place in places}


def _merged(value: Any, instead: dict[int, BaseMessage]) -> Any:
    if isinstance(value, BaseMessage):
        return instead.get(id(value), value)
    if type(value) is dict:
        return {key: _merged(item, instead) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_merged(item, instead) for item in value)
    if _is("Send", value):
        value.arg = _merged(value.arg, instead)
    return value


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
