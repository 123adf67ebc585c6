"""Anthropic's Messages: from the wire back to LangChain.

The form of requests: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from agenttape_core.integration.importing import NotImportableError, expect, items
from agenttape_langchain.importers.requests import History, ModelCall, tool_names

_OF_THE_MODEL = ("model", "max_tokens", "temperature", "top_k", "top_p", "thinking", "stop_sequences")
"""Fields that a program sets when it constructs its model; the others go with the call."""
_OWN = frozenset({*_OF_THE_MODEL, "messages", "system", "stream"})


def read_call(request: dict[str, Any], history: History, schemas: Sequence[type]) -> ModelCall:  # noqa: ARG001 - as in the other forms
    """Return the call of a model that a request was sent for.

    `history` has the answers before it; `schemas` are not used by this service. Raises `NotImportableError` if the
    request isn't in the form of Messages.
    """
    kwargs = {key: value for key, value in request.items() if key not in _OWN}
    settings = {key: request[key] for key in _OF_THE_MODEL if key in request}
    expect(settings.get("model"), "`model`", str)
    messages: list[BaseMessage] = []
    if request.get("system"):
        messages.append(SystemMessage(expect(request["system"], "`system`", str, list)))
    for plain in items(request, "messages"):
        content = expect(plain.get("content"), "`content`", str, list)
        if plain.get("role") == "assistant":
            messages.append(_assistant(content, history))
        elif plain.get("role") == "user":
            messages += _user(content, messages)
        elif plain.get("role") == "system":
            messages.append(SystemMessage(content))
        else:
            raise NotImportableError(f"its request has a message of the unknown role {str(plain.get('role'))[:40]!r}")
    return ModelCall(messages, kwargs, settings, streamed=request.get("stream") is True)


def _assistant(content: Any, history: History) -> AIMessage:
    blocks = _blocks(content)
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    earlier = history.find([str(use.get("id")) for use in uses], content if isinstance(content, str) else text)
    if earlier is not None:
        return earlier
    calls = [tool_call(name=str(use.get("name")), args=_input(use), id=str(use.get("id"))) for use in uses]
    return AIMessage(content, tool_calls=calls)


def _input(use: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = expect(use.get("input", {}), "`input` of a tool use", dict)
    return given


def _user(content: Any, before: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that the client has merged into one: the results of tools, and the user's message."""
    blocks = _blocks(content)
    results = [block for block in blocks if _is_result(block)]
    if not results:
        return [HumanMessage(content)]
    rest: list[Any] = [block for block in blocks if not _is_result(block)]
    if len(rest) == 1 and rest[0].keys() == {"type", "text"}:
        rest = rest[0]["text"]
    names = tool_names(before)
    return [*(_result(block, names) for block in results), *([HumanMessage(rest)] if rest else [])]


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result"


def _result(block: dict[str, Any], names: dict[str, str]) -> ToolMessage:
    call_id = expect(block.get("tool_use_id"), "`tool_use_id`", str)
    status: Any = "error" if block.get("is_error") else "success"
    content = expect(block.get("content", ""), "`content` of a tool result", str, list)
    return ToolMessage(content, tool_call_id=call_id, name=names.get(call_id), status=status)


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
