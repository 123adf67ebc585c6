"""Answers that the user has chosen for calls, as their boundaries return them, and recorded answers as users know them.

Of an LLM that chats, the answer is a message, a text or a whole response; of one that completes, a text or a response.
"""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole, ToolCallBlock
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import ToolOutput

from agenttape_core import ConfigurationError
from agenttape_core.integration import How, register_damage


def chosen_chat(crossing: Any, answer: Any) -> ChatResponse:
    """Return the response of an LLM whose answer was chosen.

    Args:
        crossing: The call.
        answer: A text, a message or a whole response.

    Raises:
        ConfigurationError: If it is none of these.
    """
    if isinstance(answer, ChatResponse):
        return answer
    message = ChatMessage(role=MessageRole.ASSISTANT, content=answer) if isinstance(answer, str) else answer
    if not isinstance(message, ChatMessage):
        raise ConfigurationError(
            f"expected a text, a message or a response for {crossing.request.name}, found {answer!r}"
        )
    return ChatResponse(message=message)


def chosen_completion(crossing: Any, answer: Any) -> CompletionResponse:
    """Return the response of an LLM whose text was chosen.

    Raises:
        ConfigurationError: If it is no text, and no response.
    """
    if isinstance(answer, CompletionResponse):
        return answer
    if not isinstance(answer, str):
        raise ConfigurationError(f"expected a text or a response for {crossing.request.name}, found {answer!r}")
    return CompletionResponse(text=answer)


@register_damage
def damaged(how: How, answer: Any, text: str) -> Any:
    """Damage the response of an LLM, the output of a tool, or a node that was found."""
    if isinstance(answer, ChatResponse):
        return _damaged_chat(how, answer, text)
    if isinstance(answer, CompletionResponse) and how in {"empty", "add"}:
        return CompletionResponse(text="" if how == "empty" else f"{answer.text}\n{text}", raw=answer.raw)
    if isinstance(answer, ToolOutput) and how in {"empty", "add"}:
        said = "" if how == "empty" else f"{answer.content}\n{text}"
        return ToolOutput(tool_name=answer.tool_name, content=said, raw_input=answer.raw_input, raw_output=said)
    if isinstance(answer, NodeWithScore) and isinstance(answer.node, TextNode) and how in {"empty", "add"}:
        said = "" if how == "empty" else f"{answer.node.text}\n{text}"
        return answer.model_copy(update={"node": answer.node.model_copy(update={"text": said})})
    return NotImplemented


def _damaged_chat(how: How, answer: ChatResponse, text: str) -> Any:
    message = answer.message
    if how == "empty":
        return ChatResponse(message=ChatMessage(role=message.role, content=""), raw=answer.raw)
    if how == "add":
        said = f"{message.content or ''}\n{text}"
        return ChatResponse(message=ChatMessage(role=message.role, content=said), raw=answer.raw)
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if not calls:
        return NotImplemented
    given = calls[-1].tool_kwargs
    arguments = given if isinstance(given, str) else json.dumps(given)
    fewer: Any = {} if arguments != "{}" else {"unexpected": True}
    kept = arguments[: len(arguments) // 2] if how == "cut_tool_call" else fewer
    broken = calls[-1].model_copy(update={"tool_kwargs": kept})
    blocks = [broken if block is calls[-1] else block for block in message.blocks]
    further = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    return ChatResponse(
        message=ChatMessage(role=message.role, blocks=blocks, additional_kwargs=further), raw=answer.raw
    )
