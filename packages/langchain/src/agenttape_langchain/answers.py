"""Answers that the user has chosen for calls, as their boundaries return them, and recorded answers as users know them.

For a chat model, the answer is a message or a text; for a text model a text; for a tool the return value of its
function, or the message made from it.
"""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import How, register_damage
from agenttape_langchain._compat import is_document

_OF_TOOL_CALLS = frozenset({"tool_use", "tool_call", "function_call", "input_json_delta"})
"""The types of content blocks that repeat the tool calls of a message."""


def message_of(_: Any, result: Any) -> Any:
    """Return the message of the result of a chat model."""
    return result.generations[0].message if isinstance(result, ChatResult) and result.generations else result


def chosen_result(session_call: Any, answer: Any) -> ChatResult:
    """Return the result of a chat model whose answer was chosen.

    `answer` is a text, a message or a whole result; a text keeps the rest of the recorded message, unless that message
    called tools. Raises `ConfigurationError` if it is none of these.
    """
    if isinstance(answer, ChatResult):
        return answer
    message = _with_text(answer, message_of(session_call, session_call.recorded)) if isinstance(answer, str) else answer
    if not isinstance(message, BaseMessage):
        raise ConfigurationError(f"expected a text or a message for a chat model, found {answer!r}")
    return ChatResult(generations=[ChatGeneration(message=message)])


def _with_text(text: str, recorded: Any) -> AIMessage:
    """Return the recorded message with another text, or a new one if the recorded message called tools."""
    if not isinstance(recorded, AIMessage) or recorded.tool_calls or recorded.invalid_tool_calls:
        return AIMessage(text)
    return recorded.model_copy(update={"content": text, "usage_metadata": None})


def text_of(_: Any, result: Any) -> Any:
    """Return the text of the result of a text model that was asked to complete one prompt."""
    if isinstance(result, LLMResult) and len(result.generations) == 1 and result.generations[0]:
        return result.generations[0][0].text
    return result


def chosen_texts(_: Any, answer: Any) -> LLMResult:
    """Return the result of a text model whose answer was chosen.

    Raises `ConfigurationError` if it's neither a text nor a result.
    """
    if isinstance(answer, LLMResult):
        return answer
    if not isinstance(answer, str):
        raise ConfigurationError(f"expected a text for a text model, found {answer!r}")
    return LLMResult(generations=[[Generation(text=answer)]])


def chosen_output(session_call: Any, answer: Any) -> Any:
    """Return the result of a tool whose answer was chosen. A message answers the recorded call."""
    found = getattr(session_call, "found", None)  # of a call that is replayed
    if not isinstance(answer, ToolMessage) or found is None or not session_call.request.extra:
        return answer
    ids = session_call.session.source.ids(found.number)
    update = {"tool_call_id": ids[-1] if ids else answer.tool_call_id, "name": answer.name or session_call.request.name}
    return answer.model_copy(update=update)


@register_damage
def damaged(how: How, answer: Any, text: str) -> Any:
    """Damage the message of a model, the message of a tool, or a document."""
    if is_document(answer) and how in {"empty", "add"}:
        content = "" if how == "empty" else f"{answer.page_content}\n{text}"
        return answer.model_copy(update={"page_content": content})
    if not isinstance(answer, BaseMessage):
        return NotImplemented
    if how == "add":
        more = [*answer.content, {"type": "text", "text": text}] if isinstance(answer.content, list) else ""
        return answer.model_copy(update={"content": more or f"{answer.content}\n{text}"})
    if how == "empty":
        is_model = isinstance(answer, AIMessage)
        return _with_calls(answer, [], [], content="") if is_model else answer.model_copy(update={"content": ""})
    return _damaged_call(how, answer) if isinstance(answer, AIMessage) and answer.tool_calls else NotImplemented


def _damaged_call(how: How, answer: AIMessage) -> AIMessage:
    *others, last = answer.tool_calls
    if how == "malformed_tool_call":
        return _with_calls(answer, [*others, {**last, "args": {} if last["args"] else {"unexpected": True}}], [])
    arguments = json.dumps(last["args"])
    cut = {"name": last["name"], "args": arguments[: len(arguments) // 2], "id": last["id"], "error": None}
    message = _with_calls(answer, others, [{**cut, "type": "invalid_tool_call"}])
    reasons = {"finish_reason": "length", "stop_reason": "max_tokens"}
    ended = {key: reasons.get(key, value) for key, value in message.response_metadata.items()}
    return message.model_copy(update={"response_metadata": ended})


def _with_calls(answer: Any, calls: list[Any], invalid: list[Any], **update: Any) -> AIMessage:
    """Return a message of a model with other tool calls, wherever the message repeats them."""
    content, repeating = answer.content, {"tool_calls", "function_call"}
    if isinstance(content, list):
        content = [one for one in content if not (isinstance(one, dict) and one.get("type") in _OF_TOOL_CALLS)]
    further = {key: value for key, value in answer.additional_kwargs.items() if key not in repeating}
    called = {"tool_calls": calls, "invalid_tool_calls": invalid, "additional_kwargs": further, "content": content}
    return AIMessage(**{**{name: getattr(answer, name) for name in AIMessage.model_fields}, **called, **update})
