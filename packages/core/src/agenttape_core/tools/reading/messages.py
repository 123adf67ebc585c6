"""Messages of requests and answers, in the form of OpenTelemetry's GenAI conventions.

https://github.com/open-telemetry/semantic-conventions-genai, `docs/gen-ai/gen-ai-spans.md`: a message is
`{"role": ..., "parts": [...]}`, and a part has a `type`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Parts = list[dict[str, Any]]

_TEXTS = ("text", "content", "reasoning", "thinking", "refusal")
_THOUGHTS = frozenset({"reasoning", "thinking"})
_CALLS = frozenset({"function_call", "tool_call", "tool_use"})
"""The kinds of blocks that a message repeats among its tool calls."""
_MEDIA = frozenset({"audio", "document", "file", "image", "image_url", "input_audio", "video"})
_ROLES = {"ai": "assistant", "AIMessageChunk": "assistant", "human": "user"}


def input_messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a request; its prompts as messages if it has no others."""
    messages = [message_of(message) for message in items_of(request.get("messages")) if isinstance(message, Mapping)]
    prompts = [{"role": "user", "parts": [_text(prompt)]} for prompt in items_of(request.get("prompts"))]
    return messages or prompts


def system_instructions(request: Mapping[str, Any]) -> Parts:
    """Return the instructions of a request outside its messages."""
    for key in ("instructions", "system", "system_instruction"):
        if instructions := request.get(key):
            return list(_parts(instructions))
    return []


def tool_definitions(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools that a request offers, each with its `type` and `name`."""
    tools = [tool for tool in items_of(request.get("tools")) if isinstance(tool, Mapping)]
    flat = [{**tool, **inner} if isinstance(inner := tool.get("function"), Mapping) else dict(tool) for tool in tools]
    return [{"type": "function", **{key: item for key, item in tool.items() if key != "function"}} for tool in flat]


def message_of(message: Mapping[str, Any], role: str = "user") -> dict[str, Any]:
    """Return a message of a request or an answer. `role` is the role of a message that names none."""
    own_role = str(message.get("role") or message.get("type") or role)
    content = message.get("blocks", message.get("content"))
    if own_role == "tool":
        parts: Parts = [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}]
    else:
        parts = [*_parts(content), *map(_call, items_of(message.get("tool_calls")))]
    result = {"role": _ROLES.get(own_role, own_role), "parts": parts}
    return {**result, "name": message["name"]} if isinstance(message.get("name"), str) else result


def items_of(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if isinstance(value, list) else []


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, Mapping):
            yield from _block(block)
        elif block not in (None, ""):
            yield _text(block)


def _block(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind = str(block.get("type", block.get("block_type", "text")))
    if kind in _MEDIA:
        yield _media(kind, block)
    elif kind in _CALLS and "tool_name" in block:  # LlamaIndex's blocks are not repeated among the tool calls
        yield _call({"id": block.get("tool_call_id"), "name": block["tool_name"], "args": block.get("tool_kwargs")})
    elif kind not in _CALLS:
        text = next((block[key] for key in _TEXTS if isinstance(block.get(key), str)), None)
        if text is None:
            yield {**block, "type": kind}
        else:
            yield {"type": "reasoning" if kind in _THOUGHTS else "text", "content": text}


def _media(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    modality = {"image_url": "image", "input_audio": "audio", "file": "document"}.get(kind, kind)
    inner = block.get(kind, block.get("source"))  # Anthropic's is under `source`
    given = {**block, **inner} if isinstance(inner, Mapping) else dict(block)
    mime_type = given.get("mime_type") or given.get("media_type")
    url = given.get("url", inner if kind == "image_url" else None)
    known = {"modality": modality, **({"mime_type": mime_type} if mime_type else {})}
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
        head, _, encoded = url.removeprefix("data:").partition(";base64,")
        return {"type": "blob", "modality": modality, "mime_type": head, "content": encoded}
    if isinstance(url, str):
        return {"type": "uri", **known, "uri": url}
    if isinstance(given.get("file_id"), str):
        return {"type": "file", **known, "file_id": given["file_id"]}
    data = next((given[key] for key in ("base64", "data", kind) if isinstance(given.get(key), str)), None)
    return {**block, "type": kind} if data is None else {"type": "blob", **known, "content": data}


def _call(call: Any) -> dict[str, Any]:
    given = call if isinstance(call, Mapping) else {}
    arguments = given.get("args", given.get("arguments"))
    return {"type": "tool_call", "id": given.get("id"), "name": str(given.get("name", "")), "arguments": arguments}


def _text(value: Any) -> dict[str, Any]:
    return {"type": "text", "content": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
