"""OpenAI's Responses: from the wire back to LlamaIndex.

The form of requests: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock

from agenttape_core.integration.importing import NotImportableError, expect, items
from agenttape_llamaindex.importers.requests import History, ModelCall, assistant, image, tool_result, without

_OF_THE_MODEL = (
    *("model", "temperature", "top_p", "max_output_tokens", "include", "instructions", "store", "truncation", "user"),
    "previous_response_id",
)
"""Fields that the class has arguments for."""
_OF_THE_CALL = ("tool_choice", "parallel_tool_calls", "text")
"""Fields that the framework passes with a call."""


def read_call(request: dict[str, Any], history: History) -> ModelCall:
    """Return the call of an LLM that a request was sent for.

    `history` has the answers before it. Raises `NotImportableError` if the request isn't in the form of Responses.
    """
    expect(request.get("model"), "`model`", str)
    settings = {key: request[key] for key in _OF_THE_MODEL if request.get(key) is not None}
    for field, argument in (("metadata", "call_metadata"), ("reasoning", "reasoning_options")):
        if request.get(field) is not None:
            settings[argument] = request[field]
    tools = items(request, "tools") if request.get("tools") else []
    functions = [tool for tool in tools if tool.get("type") == "function"]
    if any(tool.get("strict") is True for tool in functions):
        settings["strict"] = True
    if len(functions) < len(tools):
        settings["built_in_tools"] = [tool for tool in tools if tool not in functions]
    kwargs = {key: request[key] for key in _OF_THE_CALL if request.get(key) is not None}
    if functions:
        kwargs["tools"] = functions
    own = (*_OF_THE_MODEL, *_OF_THE_CALL, "metadata", "reasoning", "tools", "input", "stream")
    if others := without(request, *own):
        settings["additional_kwargs"] = others
    return ModelCall(_messages(request, history), kwargs, settings, streamed=request.get("stream") is True)


def _messages(request: dict[str, Any], history: History) -> list[ChatMessage]:
    given = request.get("input")
    if isinstance(given, str):
        return [ChatMessage(role=MessageRole.USER, content=given)]
    messages: list[ChatMessage] = []
    for is_of_model, found in groupby(items(request, "input"), key=_is_of_model):
        group = list(found)
        messages += _answers(group, history) if is_of_model else map(_other, group)
    return messages


def _is_of_model(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or ("role" not in item and item.get("type") != "function_call_output")


def _answers(group: list[dict[str, Any]], history: History) -> list[ChatMessage]:
    """Return the messages of consecutive items of the LLM: a text, and the tool calls after it, are one."""
    found: list[ChatMessage] = []
    text, calls = "", list[tuple[str, str, str]]()
    for item in group:
        if item.get("role") == "assistant":
            if text or calls:
                found.append(assistant(text, calls, history))
            text, calls = _text_of(item.get("content")), []
        elif item.get("type") == "function_call":
            calls.append((str(item.get("call_id")), str(item.get("name")), str(item.get("arguments"))))
        elif item.get("type") != "reasoning":  # which an earlier answer holds
            raise NotImportableError(f"its request has an item of the type {str(item.get('type'))[:40]!r}")
    return [*found, assistant(text, calls, history)] if text or calls else found


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict))


def _other(item: dict[str, Any]) -> ChatMessage:
    if item.get("type") == "function_call_output":
        output = expect(item.get("output"), "`output`", str)
        return tool_result(expect(item.get("call_id"), "`call_id`", str), output)
    role, content = item.get("role"), expect(item.get("content"), "`content`", str, list)
    if role in ("system", "developer"):  # a tuple: the role may be anything
        return ChatMessage(role=MessageRole.SYSTEM, content=_text_of(content))
    if role == "user":
        blocks = [TextBlock(text=content)] if isinstance(content, str) else [_block(part) for part in content]
        return ChatMessage(role=MessageRole.USER, blocks=blocks)
    raise NotImportableError(f"its request has an item of the unknown role {str(role)[:40]!r}")


def _block(part: Any) -> ContentBlock:
    kind = expect(part, "a part of `content`", dict).get("type")
    if kind == "input_text":
        return TextBlock(text=str(part.get("text", "")))
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        detail = part.get("detail")
        return image(part["image_url"], None if detail == "auto" else detail)
    raise NotImportableError(f"its request has a part of the type {str(kind)[:40]!r}, which is not read back")
