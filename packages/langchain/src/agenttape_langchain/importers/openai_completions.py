"""OpenAI's Chat Completions, as every compatible service speaks it: from the wire back to LangChain.

The form of requests: https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage

from agenttape_core.integration.importing import NotImportableError, expect, items
from agenttape_langchain.importers.requests import (
    History,
    ModelCall,
    calls_from_text,
    response_format,
    tool_names,
)

_OWN = frozenset({"messages", "model", "stream", "stream_options", "max_tokens", "response_format"})
_DEVELOPER_BY_MODEL = re.compile(r"^o\d")
"""The names of models to which the client sends system messages as a developer's."""


def read_call(request: dict[str, Any], history: History, schemas: Sequence[type]) -> ModelCall:
    """Return the call of a model that a request was sent for.

    `history` has the answers before it; the program passes the classes `schemas` as response formats. Raises
    `NotImportableError` if the request isn't in the form of Chat Completions.
    """
    kwargs = {key: value for key, value in request.items() if key not in _OWN}
    if "max_tokens" in request:  # which today's client sends under its new name
        kwargs.setdefault("max_completion_tokens", request["max_tokens"])
    if "response_format" in request:
        kwargs["response_format"] = response_format(request["response_format"], schemas)
    model = expect(request.get("model") or "", "`model`", str)
    usage = request.get("stream_options")
    streams_usage = isinstance(usage, dict) and bool(usage.get("include_usage"))
    settings = {"model": model, "stream_usage": streams_usage, "use_responses_api": False}
    messages: list[BaseMessage] = []
    for plain in items(request, "messages"):
        messages.append(_message(plain, history, messages, model))
    return ModelCall(messages, kwargs, settings, streamed=request.get("stream") is True)


def _message(plain: dict[str, Any], history: History, before: list[BaseMessage], model: str) -> BaseMessage:
    role, content = plain.get("role"), plain.get("content")
    content = expect("" if content is None else content, "`content`", str, list)
    named = {"name": plain["name"]} if isinstance(plain.get("name"), str) else {}
    if role == "assistant":
        return _assistant(plain, content, history, named)
    if role == "user":
        return HumanMessage(content, **named)
    if role in ("system", "developer"):  # a tuple: the role may be anything
        is_developer = role == "developer" and not _DEVELOPER_BY_MODEL.match(model)
        marks = {"__openai_role__": "developer"} if is_developer else {}
        return SystemMessage(content, additional_kwargs=marks, **named)
    if role == "tool":
        call_id = expect(plain.get("tool_call_id"), "`tool_call_id`", str)
        return ToolMessage(content, tool_call_id=call_id, name=tool_names(before).get(call_id))
    if role == "function":
        return FunctionMessage(content=content, name=expect(plain.get("name"), "`name`", str))
    raise NotImportableError(f"its request has a message of the unknown role {str(role)[:40]!r}")


def _assistant(plain: dict[str, Any], content: Any, history: History, named: dict[str, str]) -> AIMessage:
    calls = [(call.get("id", ""), *_function(call)) for call in plain.get("tool_calls") or () if isinstance(call, dict)]
    earlier = history.find([call_id for call_id, *_ in calls], content if isinstance(content, str) else "")
    if earlier is not None:
        return earlier.model_copy(update=named)
    extra = {key: plain[key] for key in ("function_call", "audio") if plain.get(key) is not None}
    return AIMessage(content, additional_kwargs=extra, **calls_from_text(calls), **named)


def _function(call: dict[str, Any]) -> tuple[str, str]:
    function = expect(call.get("function"), "`function` of a tool call", dict)
    return str(function.get("name", "")), str(function.get("arguments", ""))
