"""The content of answers, by which two of them are compared, however they were delivered."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, TextBlock, ToolCallBlock


def content_of(response: Any) -> Any:
    """Return the content of a response, without the ids that are new in each answer.

    Args:
        response: A `ChatResponse`, a `CompletionResponse`, or a list of them.

    Returns:
        Plain data, equal for equal answers. Chunks have their delta too.
    """
    if isinstance(response, list):
        return [(content_of(chunk), chunk.delta or "") for chunk in response]
    if isinstance(response, CompletionResponse):
        return response.text
    if isinstance(response, ChatResponse):
        return response.message.role.value, _contents_of(response.message)
    return response


def _contents_of(message: ChatMessage) -> list[Any]:
    """Return the blocks of a message, without the ids of tool calls."""
    return [_content_of(block) for block in message.blocks if not _is_empty(block)]


def _content_of(block: Any) -> Any:
    """Return a block as plain data, without the id of a tool call."""
    if isinstance(block, ToolCallBlock):
        return "tool_call", block.tool_name, arguments(block.tool_kwargs)
    return block.model_dump()


def arguments(given: Any) -> Any:
    """Return the arguments of a tool call as data, even if they came as text."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given or "{}")
    except ValueError:  # a fragment of a stream
        return given


def text_of(response: Any) -> str:
    """Return the text of an answer or of a chunk, without the line breaks that LlamaIndex puts between blocks."""
    if isinstance(response, CompletionResponse):
        return response.text
    return "".join(block.text for block in response.message.blocks if isinstance(block, TextBlock))


def _is_empty(block: Any) -> bool:
    return isinstance(block, TextBlock) and not block.text
