"""Messages, blocks, nodes and queries in a request, as plain data in the terms that all our cassettes share."""

from __future__ import annotations

import binascii
import json
import marshal
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.tools import ToolMetadata
from llama_index.core.vector_stores.types import VectorStoreQuery
from pydantic import BaseModel

from agenttape_core.integration import KeyedItems, request_value
from agenttape_core.integration.codecs import Floats, packed

_MEDIA_TERMS = {
    **dict.fromkeys(("image", "audio", "video", "data"), "base64"),
    **dict.fromkeys(("image_mimetype", "video_mimetype", "document_mimetype"), "mime_type"),
}
"""The fields of LlamaIndex's blocks that have another name in our cassettes."""


def keyed_messages(messages: Sequence[ChatMessage]) -> KeyedItems:
    """Return messages with their keys, and the function that makes the sent form of a message.

    An agent sends the same messages again on each call: a message with a cheap key is made once only.
    """
    keys = [message_key(message) if type(message) is ChatMessage else None for message in messages]
    return KeyedItems(keys, messages, plain_message)


def message_key(message: ChatMessage) -> Any:
    """Return what messages of equal content have in common; `None` if that is not cheap to say.

    This is the one look at each message of a conversation that every call takes: a message may have been changed.
    """
    content: Any = ()
    extra = message.additional_kwargs
    try:
        for block in message.blocks:
            if type(block) is TextBlock:
                content += (block.text,)
            elif type(block) is ToolCallBlock:
                content += ((block.tool_call_id, block.tool_name, marshal.dumps(block.tool_kwargs, 2)),)
            else:
                return None
        # not the role itself, whose hash is computed in Python
        return str.__str__(message.role), content, marshal.dumps(extra, 2) if extra else b""
    except (ValueError, TypeError):
        return None


def plain_message(message: ChatMessage) -> dict[str, Any]:
    """Return the sent form of a message as plain data: role, content and tool calls, or the call that it answers."""
    extra = dict(message.additional_kwargs)
    plain: dict[str, Any] = {"role": getattr(message.role, "value", message.role), "content": _content(message)}
    for key in ("name", "tool_call_id"):
        if isinstance(extra.get(key), str):
            plain[key] = extra.pop(key)
    calls = [_tool_call(block) for block in message.blocks if isinstance(block, ToolCallBlock)]
    if not calls and (legacy := legacy_calls(extra.get("tool_calls"))):
        calls = legacy
    if calls:
        extra.pop("tool_calls", None)  # the raw twin of the blocks
        plain["tool_calls"] = calls
    sent = {key: request_value(value) for key, value in extra.items() if value is not None}
    return {**plain, "additional_kwargs": sent} if sent else plain


def _content(message: ChatMessage) -> Any:
    blocks = [block for block in message.blocks if not isinstance(block, ToolCallBlock)]
    if not blocks:
        return ""
    if len(blocks) == 1 and type(blocks[0]) is TextBlock:
        return blocks[0].text
    return [_block(block) for block in blocks]


def _block(block: Any) -> dict[str, Any]:
    fields = {key: value for key, value in vars(block).items() if value is not None and key != "block_type"}
    kind = getattr(block, "block_type", type(block).__name__)
    terms = dict(_term(key, value) for key, value in fields.items())
    if kind == "image" and ("base64" in terms or "url" in terms):
        return _image_url(terms)
    return {"type": "file" if kind == "document" else kind, **terms}


def _image_url(terms: dict[str, Any]) -> dict[str, Any]:
    """Return an image in the form that most providers receive, and that LangChain sends to all of them."""
    mime_type, data = terms.pop("mime_type", None), terms.pop("base64", None)
    url = f"data:{mime_type or 'image/png'};base64,{data}" if data else str(terms.pop("url"))
    return {"type": "image_url", "image_url": {"url": url, **terms}}


def _term(name: str, value: Any) -> tuple[str, Any]:
    """Return a field of a block under its name in our cassettes; binary data is base64."""
    name = _MEDIA_TERMS.get(name, name)
    value = plain_field(value)
    return name, _base64(value) if name == "base64" and isinstance(value, bytes) else value


def _base64(data: bytes) -> str:
    """Return binary data as base64. Blocks hold it as that already, unless they hold a file."""
    try:
        binascii.a2b_base64(data, strict_mode=True)
        return data.decode("ascii")
    except ValueError:
        return binascii.b2a_base64(data, newline=False).decode("ascii")


def plain_field(value: Any) -> Any:
    """Return a field of a block as plain data, with open files read and blocks inside of it."""
    if isinstance(value, list):
        return [plain_field(item) for item in value]
    return _block(value) if isinstance(value, BaseModel) and hasattr(value, "block_type") else request_value(value)


def _tool_call(block: ToolCallBlock) -> dict[str, Any]:
    return {"name": block.tool_name, "args": _arguments(block.tool_kwargs), "id": block.tool_call_id}


def _arguments(arguments: Any) -> Any:
    """Return the arguments of a tool call, which some providers give as JSON text."""
    if isinstance(arguments, str):
        try:
            read = json.loads(arguments)
        except ValueError:
            return arguments
        return read if isinstance(read, dict) else arguments
    return request_value(arguments)


def legacy_calls(calls: Any) -> list[dict[str, Any]]:
    """Return the tool calls in `additional_kwargs`, if they are objects or dicts of OpenAI's form."""
    found = []
    for call in calls if isinstance(calls, list) else ():
        function = _get(call, "function")
        if function is None:
            return []
        found.append(
            {"name": _get(function, "name"), "args": _arguments(_get(function, "arguments")), "id": _get(call, "id")}
        )
    return found


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def plain_argument(value: Any) -> Any:
    """Return an argument of a call as plain data, with the messages, nodes and queries anywhere inside it."""
    for cls, plain in _PLAIN.items():
        if isinstance(value, cls):
            return plain(value)
    if type(value) in {list, tuple}:
        vector = packed(value)
        return vector if type(vector) is Floats else [plain_argument(item) for item in value]
    if type(value) is dict:
        return {str(key): plain_argument(item) for key, item in value.items()}
    return request_value(value)


def _node(node: BaseNode) -> dict[str, Any]:
    """Return a node as its readers see it; its id is one of the run."""
    plain = {
        "content": node.get_content(MetadataMode.NONE),
        "metadata": request_value(node.metadata),
        "id": node.node_id,
    }
    return plain if node.embedding is None else {**plain, "embedding": plain_argument(node.embedding)}


def _scored(node: NodeWithScore) -> dict[str, Any]:
    plain = _node(node.node)
    return plain if node.score is None else {**plain, "score": node.score}


def _query(query: Any) -> dict[str, Any]:
    return {key: plain_argument(value) for key, value in vars(query).items() if value is not None}


_PLAIN: dict[type, Any] = {
    ChatMessage: plain_message,
    NodeWithScore: _scored,
    BaseNode: _node,
    VectorStoreQuery: _query,
    QueryBundle: _query,
    ToolMetadata: lambda tool: tool.to_openai_tool(skip_length_check=True),
}
