"""Answers that the user has chosen for calls, as their boundaries return them, and recorded answers as users know them.

Of an LLM that chats, the answer is a message, a text or a whole response; of one that completes, a text or a response.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole

from agenttape_core import ConfigurationError


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
