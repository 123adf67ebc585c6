"""Chat messages, in the terms of all our cassettes.

`{"$chat_message": {"role": "assistant", "content": "...", "tool_calls": [{"name": ..., "args": ..., "id": ...}]}}`:
the form of a text with tool calls after it; a message with other blocks has `blocks`.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from pydantic import BaseModel

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import Plain, TypeCodec, class_name
from agenttape_core.integration.codecs import (
    Nested,
    build,
    class_in,
    dump_fields,
    expect_dict,
    mark_class,
    note_set,
    read_extra,
)
from agenttape_llamaindex.codec.blocks import read_block, write_block

# -- The objects of a provider's client in `raw` and in `additional_kwargs`.
#
# Such an object comes back with its own type where its class is loaded, and as a dict elsewhere: a stand-in needs no
# provider package, and LlamaIndex reads both.


def write_raw(value: Any, nested: Nested) -> Plain:
    """Return a provider's object as plain data. Raises `UnrecordableValueError` if it has no form as plain data."""
    try:
        return nested(value)
    except UnrecordableValueError:
        plainer = _plainer(value)
        if plainer is None:
            raise
        return write_raw(plainer, nested)


def _plainer(value: Any) -> Any:
    """Return the data of an object that has no codec, by its own methods; `None` if it has none."""
    if isinstance(value, dict):
        items_by_key = {key: _item(item) for key, item in value.items()}
        return items_by_key if any(items_by_key[key] is not item for key, item in value.items()) else None
    if isinstance(value, list | tuple):
        items = [_item(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else None
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    for name in ("to_dict", "model_dump"):
        if callable(method := getattr(value, name, None)):
            data = method()
            return data if isinstance(data, dict) else None
    return None


def _item(value: Any) -> Any:
    if isinstance(value, str | int | float | bool | bytes | None):
        return value
    plainer = _plainer(value)
    return value if plainer is None else plainer


def read_raw(plain: Plain, nested: Nested) -> Any:
    """Return the object that was written, or a dict of its fields where its class is not loaded."""
    try:
        return nested(plain)
    except UnreadableValueError:
        return nested(_without_classes(plain))


def _without_classes(plain: Plain) -> Plain:
    if type(plain) is list:
        return [_without_classes(item) for item in plain]
    if type(plain) is not dict:
        return plain
    if plain.keys() <= {"$model", "$dataclass"} and len(plain) == 1:
        body = expect_dict(next(iter(plain.values())), "$model")
        return _without_classes({**expect_dict(body.get("fields"), "$model"), **body.get("extra", {})})
    if plain.keys() == {"$enum"}:
        return plain["$enum"][-1]
    return {key: _without_classes(item) for key, item in plain.items()}


_ROLES = {role.value: role for role in MessageRole}
_FIELDS = frozenset({"role", "content", "tool_calls", "blocks", "additional_kwargs"})


def write_message(message: ChatMessage, nested: Nested) -> dict[str, Plain]:
    """Return a message's body, the part below `$chat_message`.

    Raises `UnrecordableValueError` if it holds a value that the constructor would have refused.
    """
    role, blocks, kwargs = message.role, message.blocks, message.additional_kwargs
    if not isinstance(role, MessageRole) or type(blocks) is not list or type(kwargs) is not dict:
        why = "its role, blocks or additional_kwargs are not of the types that a ChatMessage has"
        raise UnrecordableValueError("$", type(message), why)
    body: dict[str, Plain] = {"role": role.value, **_written(blocks, nested)}
    if kwargs:
        body["additional_kwargs"] = write_raw(kwargs, nested)
    body.update(dump_fields(message, nested, skip=("role", "blocks", "additional_kwargs")))
    note_set(message, body, {*(body.keys() - {"content", "tool_calls"}), "blocks"})
    return mark_class(body, type(message), ChatMessage)


def _written(blocks: list[Any], nested: Nested) -> dict[str, Plain]:
    texts = 1 if blocks and _is_text(blocks[0]) else 0
    if not all(map(_is_tool_call, blocks[texts:])):
        return {"blocks": [write_block(block, nested) for block in blocks]}
    body: dict[str, Plain] = {"content": nested(blocks[0].text)} if texts else {}
    if calls := blocks[texts:]:
        body["tool_calls"] = [_written_call(call, nested) for call in calls]
    return body


def _is_text(block: Any) -> bool:
    return type(block) is TextBlock and type(block.text) is str


def _is_tool_call(block: Any) -> bool:
    return type(block) is ToolCallBlock


def _written_call(call: ToolCallBlock, nested: Nested) -> Plain:
    plain = {"name": nested(call.tool_name), "args": write_raw(call.tool_kwargs, nested)}
    return plain if call.tool_call_id is None else {**plain, "id": nested(call.tool_call_id)}


def read_message(plain: Plain, nested: Nested) -> Any:
    """Return the message of a body. Raises `UnreadableValueError` if the body is malformed."""
    body = expect_dict(plain, "$chat_message")
    role = body.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise UnreadableValueError("$chat_message", f"expected a role of {', '.join(_ROLES)}, found {role!r}")
    cls = class_in(body, ChatMessage)
    fields: dict[str, Any] = {"role": _ROLES[role], "blocks": _read(body, nested)}
    if "additional_kwargs" in body:
        fields["additional_kwargs"] = read_raw(body["additional_kwargs"], nested)
        if type(fields["additional_kwargs"]) is not dict:
            raise UnreadableValueError(class_name(cls), "its field 'additional_kwargs' must be a dict")
    fields |= {key: nested(item) for key, item in body.items() if key not in _FIELDS and not key.startswith("$")}
    return build(cls, fields, read_extra(body, nested), body)


def _read(body: dict[str, Plain], nested: Nested) -> list[Any]:
    if "blocks" in body:
        return [read_block(block, nested) for block in _expect_list(body["blocks"])]
    blocks = [build(TextBlock, {"text": nested(body["content"])})] if "content" in body else []
    return [*blocks, *(_read_call(call, nested) for call in _expect_list(body.get("tool_calls", [])))]


def _read_call(plain: Plain, nested: Nested) -> Any:
    body = expect_dict(plain, "tool_calls")
    if not {"name", "args"} <= body.keys():
        raise UnreadableValueError("tool_calls", f"expected a name and args, found {sorted(body)}")
    fields = {"tool_name": nested(body["name"]), "tool_kwargs": read_raw(body["args"], nested)}
    return build(ToolCallBlock, {**fields, "tool_call_id": nested(body.get("id"))})


def _expect_list(plain: Plain) -> list[Plain]:
    if type(plain) is not list:
        raise UnreadableValueError("$chat_message", f"expected a list, found {type(plain).__name__}")
    return plain


CODEC = TypeCodec("$chat_message", lambda value: isinstance(value, ChatMessage), write_message, read_message)
"""Every chat message."""
