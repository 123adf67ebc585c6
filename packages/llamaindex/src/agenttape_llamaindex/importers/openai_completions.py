"""OpenAI's Chat Completions: from the wire back to LlamaIndex.

The form of requests: https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock

from agenttape_core.integration.importing import NotImportableError, expect, items
from agenttape_llamaindex.importers.requests import History, ModelCall, assistant, image, tool_result, without

_OF_THE_MODEL = ("model", "temperature", "max_tokens", "logprobs", "top_logprobs", "reasoning_effort", "modalities")
"""Fields that the class has arguments for."""
_OF_THE_CALL = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
"""Fields that the framework passes with a call."""


def read_call(request: dict[str, Any], history: History) -> ModelCall:
    """Return the call of an LLM that a request was sent for.

    `history` has the answers before it. Raises `NotImportableError` if the request isn't of Chat Completions.
    """
    expect(request.get("model"), "`model`", str)
    settings = {key: request[key] for key in _OF_THE_MODEL if request.get(key) is not None}
    others = without(request, *_OF_THE_MODEL, *_OF_THE_CALL, "messages", "stream", "audio", "max_completion_tokens")
    if "max_completion_tokens" in request:  # the name for reasoning models
        settings["max_tokens"] = request["max_completion_tokens"]
    if request.get("audio") is not None:
        settings["audio_config"] = request["audio"]
    kwargs = {key: request[key] for key in _OF_THE_CALL if request.get(key) is not None}
    if any(_is_strict(tool) for tool in kwargs.get("tools") or ()):
        settings["strict"] = True
    messages = [_message(plain, history) for plain in items(request, "messages")]
    if others:
        settings["additional_kwargs"] = others
    return ModelCall(messages, kwargs, settings, streamed=request.get("stream") is True)


def read_completion(request: dict[str, Any], _: History) -> ModelCall:
    """Return the call of `complete` that a request of the older Completions was sent for.

    The form of requests: https://platform.openai.com/docs/api-reference/completions/create. Raises `NotImportableError`
    if it isn't in that form.
    """
    prompt = expect(request.get("prompt"), "`prompt`", str)
    expect(request.get("model"), "`model`", str)
    settings = {key: request[key] for key in _OF_THE_MODEL if request.get(key) is not None}
    others = without(request, *_OF_THE_MODEL, "prompt", "stream")
    if others:
        settings["additional_kwargs"] = others
    return ModelCall(
        [], {}, settings, streamed=request.get("stream") is True, prompt=prompt, worked_out=("max_tokens",)
    )


def _is_strict(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and function.get("strict") is True


def _message(plain: dict[str, Any], history: History) -> ChatMessage:
    role, content = plain.get("role"), plain.get("content")
    content = expect("" if content is None else content, "`content`", str, list)
    if role == "assistant":
        text = content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)
        return assistant(text, [_call(call) for call in plain.get("tool_calls") or ()], history)
    if role == "tool":
        return tool_result(expect(plain.get("tool_call_id"), "`tool_call_id`", str), content)
    named = {"name": plain["name"]} if isinstance(plain.get("name"), str) else {}
    if role in ("system", "developer"):  # a tuple: the role may be anything
        return ChatMessage(role=MessageRole.SYSTEM, content=content, additional_kwargs=named)
    if role == "user":
        blocks = [TextBlock(text=content)] if isinstance(content, str) else [_block(part) for part in content]
        return ChatMessage(role=MessageRole.USER, blocks=blocks, additional_kwargs=named)
    raise NotImportableError(f"its request has a message of the unknown role {str(role)[:40]!r}")


def _call(call: Any) -> tuple[str, str, str]:
    function = expect(expect(call, "a tool call", dict).get("function"), "`function` of a tool call", dict)
    return str(call.get("id", "")), str(function.get("name", "")), str(function.get("arguments", ""))


def _block(part: Any) -> ContentBlock:
    kind = expect(part, "a part of `content`", dict).get("type")
    if kind == "text":
        return TextBlock(text=str(part.get("text", "")))
    if kind == "image_url" and isinstance(shown := part.get("image_url"), dict):
        return image(str(shown.get("url", "")), shown.get("detail"))
    raise NotImportableError(f"its request has a part of the type {str(kind)[:40]!r}, which is not read back")
