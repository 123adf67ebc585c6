"""What a program gets of an answer: the framework turns its content into blocks, for models that ask for it.

As `BaseChatModel` of langchain-core 1.7 does it above the leaf methods, where `output_version` is `v1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

_BLOCKS = "v1"


def handed_on(message: BaseMessage, output_version: str | None) -> AIMessage | None:
    """Return the message of a plain answer.

    Args:
        message: What the leaf method gave.
        output_version: What the model was constructed with.
    """
    if not isinstance(message, AIMessage):
        return None
    return _in_blocks(message, list(message.content_blocks)) if output_version == _BLOCKS else message


def handed_on_stream(chunks: Sequence[ChatGenerationChunk], output_version: str | None) -> AIMessage | None:
    """Return the message that a program makes of a stream, by adding its chunks."""
    messages = [chunk.message for chunk in chunks if isinstance(chunk.message, AIMessageChunk)]
    if output_version == _BLOCKS:
        index, kind = -1, ""
        for number, message in enumerate(messages):
            blocks: list[Any] = list(message.content_blocks)
            for block in blocks:
                index, kind = (index, kind) if block["type"] == kind else (index + 1, block["type"])
                block.setdefault("index", index)
            messages[number] = _in_blocks(message, blocks)
    return messages[0] + messages[1:] if messages else None


def _in_blocks(message: Any, blocks: list[Any]) -> Any:
    metadata = {**message.response_metadata, "output_version": _BLOCKS}
    return message.model_copy(update={"content": blocks, "response_metadata": metadata})
