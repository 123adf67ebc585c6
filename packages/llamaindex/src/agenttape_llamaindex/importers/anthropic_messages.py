"""Anthropic's Messages: from the wire back to LlamaIndex.

The form of requests: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock

from agenttape_core.integration.importing import NotImportableError, expect, items
from agenttape_llamaindex.importers.requests import History, ModelCall, assistant, image, image_of, tool_result, without

_OF_THE_MODEL = ("model", "temperature", "max_tokens")
"""Fields that the class has arguments for."""
_OF_THE_CALL = ("tools", "tool_choice")
"""Fields that the framework passes with a call."""


def read_call(request: dict[str, Any], history: History) -> ModelCall:
    """Return the call of an LLM that a request was sent for.

    `history` has the answers before it. Raises `NotImportableError` if the request isn't in the form of Messages.
    """
    expect(request.get("model"), "`model`", str)
    settings = {key: request[key] for key in _OF_THE_MODEL if request.get(key) is not None}
    if request.get("thinking") is not None:
        settings["thinking_dict"] = request["thinking"]
    own = (*_OF_THE_MODEL, *_OF_THE_CALL, "thinking", "messages", "system", "stream")
    if others := without(request, *own):
        settings["additional_kwargs"] = others
    kwargs = {key: request[key] for key in _OF_THE_CALL if request.get(key)}
    messages: list[ChatMessage] = []
    if request.get("system"):
        system = expect(request["system"], "`system`", str, list)
        messages.append(ChatMessage(role=MessageRole.SYSTEM, content=_text_of(system)))
    for plain in items(request, "messages"):
        content = expect(plain.get("content"), "`content`", str, list)
        if plain.get("role") == "assistant":
            messages.append(_assistant(content, history))
        elif plain.get("role") == "user":
            messages += _user(content)
        else:
            raise NotImportableError(f"its request has a message of the unknown role {str(plain.get('role'))[:40]!r}")
    return ModelCall(messages, kwargs, settings, streamed=request.get("stream") is True)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text", "")) for block in _blocks(content) if block.get("type") == "text")


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [expect(block, "a block of `content`", dict) for block in content] if isinstance(content, list) else []


def _assistant(content: Any, history: History) -> ChatMessage:
    uses = [block for block in _blocks(content) if block.get("type") == "tool_use"]
    calls = [(str(use.get("id")), str(use.get("name")), use.get("input") or {}) for use in uses]
    return assistant(_text_of(content), calls, history)


def _user(content: Any) -> list[ChatMessage]:
    """Return the messages that the class has merged into one: the results of tools, and the user's message."""
    if isinstance(content, str):
        return [ChatMessage(role=MessageRole.USER, content=content)]
    messages: list[ChatMessage] = []
    rest: list[ContentBlock] = []
    for block in _blocks(content):
        if block.get("type") == "tool_result":
            call_id = expect(block.get("tool_use_id"), "`tool_use_id`", str)
            messages.append(tool_result(call_id, _text_of(block.get("content", ""))))
        else:
            rest.append(_block(block))
    return [*messages, ChatMessage(role=MessageRole.USER, blocks=rest)] if rest else messages


def _block(block: dict[str, Any]) -> ContentBlock:
    kind, source = block.get("type"), block.get("source")
    if kind == "text":
        return TextBlock(text=str(block.get("text", "")))
    if kind == "image" and isinstance(source, dict):
        if source.get("type") == "base64":
            return image_of(str(source.get("media_type")), str(source.get("data")))
        return image(str(source.get("url", "")))
    raise NotImportableError(f"its request has a block of the type {str(kind)[:40]!r}, which is not read back")
