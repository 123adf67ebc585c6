"""Messages and message chunks of every class.

Only fields that differ from the defaults of the class are written, in an order for readers: `{"$message": {"type":
"ai", "content": "...", "tool_calls": [...], "id": ..., "usage_metadata": ...}}`. The `type` names the class: LangChain
gives each of its message classes, chunks included, its own type. A user's subclass is named by `$class` and comes back
if it is loaded.

Fields that a message was given at their defaults (`$set`) are kept in what calls return, and not in the chunks of
streams: a sum of chunks is given all fields, whatever each was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langchain_core import messages as lc
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.base import TextAccessor

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import Plain, TypeCodec, class_name
from agenttape_core.integration.codecs import (
    CLASS,
    EXTRA,
    Nested,
    build,
    class_in,
    dump_fields,
    expect_dict,
    note_set,
    read_extra,
    read_fields,
    subclass_name,
)
from agenttape_langchain.codec import parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttape_core.integration import Plain

# -- Tool calls inside messages, without the keys that all of them have.
#
# A call is written as `{name, args, id}`: the constant `type` and keys whose value is None are left out. A dict
# without exactly the keys that LangChain's factories give it is written pair by pair under `$dict`.

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


_FIELDS_OF_CALLS = {
    "tool_calls": "tool_call",
    "invalid_tool_calls": "invalid_tool_call",
    "tool_call_chunks": "tool_call_chunk",
}

_CALL_WRITERS = {field: _writer(kind) for field, kind in _FIELDS_OF_CALLS.items()}
"""Writers of the fields that hold tool calls."""
_CALL_READERS = {field: _reader(kind) for field, kind in _FIELDS_OF_CALLS.items()}
"""Readers of the fields that hold tool calls."""

_CLASSES: tuple[type[BaseMessage], ...] = (
    lc.AIMessage,
    lc.AIMessageChunk,
    lc.HumanMessage,
    lc.HumanMessageChunk,
    lc.SystemMessage,
    lc.SystemMessageChunk,
    lc.ToolMessage,
    lc.ToolMessageChunk,
    lc.ChatMessage,
    lc.ChatMessageChunk,
    lc.FunctionMessage,
    lc.FunctionMessageChunk,
    lc.RemoveMessage,
)
_BY_TYPE: dict[str, type[BaseMessage]] = {cls.model_fields["type"].default: cls for cls in _CLASSES}
_TYPE_OF = {cls: name for name, cls in _BY_TYPE.items()}

_WRITERS = {**_CALL_WRITERS, "additional_kwargs": parsed.write_additional}
_READERS = {**_CALL_READERS, "additional_kwargs": parsed.read_additional}

_SORTS: dict[str, tuple[type, ...]] = {
    "content": (str, list),
    "tool_calls": (list,),
    "invalid_tool_calls": (list,),
    "tool_call_chunks": (list,),
    "name": (str, type(None)),
    "role": (str,),
    "tool_call_id": (str,),
    "status": (str,),
    "additional_kwargs": (dict,),
    "chunk_position": (str, type(None)),
    "id": (str, type(None)),
    "response_metadata": (dict,),
    "usage_metadata": (dict, type(None)),
}
_ITEMS: dict[str, tuple[type, ...]] = {
    "content": (str, dict),
    "tool_calls": (dict,),
    "invalid_tool_calls": (dict,),
    "tool_call_chunks": (dict,),
}
_DERIVED = ("tool_calls", "invalid_tool_calls")


def write_message(message: BaseMessage, nested: Nested) -> dict[str, Plain]:
    """Return a message's body, the part below `$message`.

    Raises `UnrecordableValueError` if a field holds a value that no constructor would have accepted, or the class is
    not found by its name.
    """
    cls = type(message)
    if problem := _misfit(message.__dict__):
        raise UnrecordableValueError("$", cls, problem)
    chunks = message.__dict__.get("tool_call_chunks")
    derived = bool(chunks) and _derives(cast("AIMessageChunk", message))
    skip = ("type", *_DERIVED) if derived else ("type",)
    always = _DERIVED if chunks and not derived else ()
    body = dump_fields(message, nested, skip=skip, always=always, special=_WRITERS)
    note_set(message, body, {*body, *_DERIVED} if derived else None)
    if _TYPE_OF.get(cls) == message.type:
        return {"type": message.type, **body}
    return {"type": nested(message.type), CLASS: subclass_name(cls), **body}


def read_message(plain: Plain, nested: Nested) -> Any:
    """Return the message of a body.

    Raises `UnreadableValueError` if the body is malformed, or names a class that is not loaded.
    """
    body = plain if type(plain) is dict else expect_dict(plain, "$message")
    if CLASS in body:
        return restore_message(class_in(body, BaseMessage), body, nested)
    kind = body.get("type")
    cls = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise UnreadableValueError("$message", f"expected a type of {', '.join(sorted(_BY_TYPE))}, found {kind!r}")
    return restore_message(cls, body, nested)


def restore_message(cls: type[BaseMessage], body: dict[str, Plain], nested: Nested) -> Any:
    """Return a message of the given class, whose body need not name its type.

    Raises `UnreadableValueError` if a field is missing, unknown or of a type that it cannot have.
    """
    fields = read_fields(body, nested, special=_READERS)
    if problem := _misfit(fields):
        raise UnreadableValueError(class_name(cls), problem)
    if "tool_call_chunks" in fields and not any(name in fields for name in _DERIVED):
        try:
            fields.update(_derived_from(fields["tool_call_chunks"]))
        except (TypeError, ValueError, KeyError) as error:
            raise UnreadableValueError("tool_call_chunks", f"the chunks are malformed ({error})") from None
    known = ("type",) if CLASS in body else ()
    if not known:
        fields.pop("type", None)
    return build(cls, fields, read_extra(body, nested) if EXTRA in body else None, body, known=known)


def _derives(message: AIMessageChunk) -> bool:
    try:
        derived = _derived_from(message.tool_call_chunks)
    except (TypeError, ValueError, KeyError):
        return False
    # By spelling: 1, 1.0 and True are equal, and nan is not.
    return repr(derived) == repr({name: getattr(message, name) for name in _DERIVED})


def _derived_from(chunks: list[Any]) -> dict[str, Any]:
    probe = AIMessageChunk(content="", tool_call_chunks=chunks)
    return {name: getattr(probe, name) for name in _DERIVED}


def _misfit(fields: dict[str, Any]) -> str:
    for name, value in fields.items():
        sorts = _SORTS.get(name)
        if sorts is None:
            continue
        if not isinstance(value, sorts):
            return f"its field {name!r} must be {_or(sorts)}, found {type(value).__name__}"
        if type(value) is list:
            for item in value:
                if not isinstance(item, _ITEMS[name]):
                    return f"its field {name!r} must hold {_or(_ITEMS[name])}, found {type(item).__name__}"
    return ""


def _or(sorts: tuple[type, ...]) -> str:
    return " or ".join("None" if sort is type(None) else sort.__name__ for sort in sorts)


CODECS: tuple[TypeCodec, ...] = (
    TypeCodec("$message", lambda value: isinstance(value, BaseMessage), write_message, read_message),
    TypeCodec(
        "$text",
        lambda value: type(value) is TextAccessor,
        lambda value, nested: nested(str(value)),
        lambda plain, nested: TextAccessor(nested(plain)),
    ),
)
"""Every message and message chunk; and `message.text`, which tools return: a string that can also be called."""
