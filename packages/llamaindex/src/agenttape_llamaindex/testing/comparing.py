"""What two answers must have in common to be the same answer: what the model said, not how it was delivered."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, TextBlock, ToolCallBlock


def said(response: Any) -> Any:
    """Return what a model said, without ids that it makes anew for each answer.

    Args:
        response: A `ChatResponse`, a `CompletionResponse`, or a list of them.

    Returns:
        Plain data: two answers are the same if it is equal. Chunks carry their delta too.
    """
    if isinstance(response, list):
        return [(said(chunk), chunk.delta or "") for chunk in response]
    if isinstance(response, CompletionResponse):
        return response.text
    if isinstance(response, ChatResponse):
        return response.message.role.value, blocks_said(response.message)
    return response


def blocks_said(message: ChatMessage) -> list[Any]:
    """Return the blocks of a message, without the ids of tool calls."""
    return [block_said(block) for block in message.blocks if not _is_empty(block)]


def block_said(block: Any) -> Any:
    """Return a block as plain data, without the id of a tool call."""
    if isinstance(block, ToolCallBlock):
        return "tool_call", block.tool_name, arguments(block.tool_kwargs)
    return block.model_dump()


def arguments(given: Any) -> Any:
    """Return the arguments of a tool call as data, whether they came as text or not."""
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
