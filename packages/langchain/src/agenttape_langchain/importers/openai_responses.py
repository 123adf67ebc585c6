"""OpenAI's Responses: from the wire back to LangChain.

The form of requests: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agenttape_core.integration.importing import NotImportableError, expect, items
from agenttape_langchain.importers.requests import (
    History,
    ModelCall,
    calls_from_text,
    response_format,
    tool_names,
)

_OWN = frozenset({"input", "model", "stream", "tools", "tool_choice", "text", "max_output_tokens"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "computer_call_output"})
"""The types of items that hold the result of a tool call."""


def read_call(request: dict[str, Any], history: History, schemas: Sequence[type]) -> ModelCall:
    """Return the call of a model that a request was sent for.

    `history` has the answers before it; the program passes the classes `schemas` as response formats. Raises
    `NotImportableError` if the request isn't in the form of Responses.
    """
    kwargs = {key: value for key, value in request.items() if key not in _OWN}
    if "tools" in request:
        kwargs["tools"] = [_tool(tool) for tool in items(request, "tools")]
    choice = request.get("tool_choice")
    if choice is not None:
        named = isinstance(choice, dict) and choice.get("type") == "function" and "name" in choice
        kwargs["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}} if named else choice
    if "max_output_tokens" in request:
        kwargs["max_completion_tokens"] = request["max_output_tokens"]
    kwargs |= _text(request.get("text"), schemas)
    settings = {"model": expect(request.get("model") or "", "`model`", str), "use_responses_api": True}
    return ModelCall(_messages(request, history), kwargs, settings, streamed=request.get("stream") is True)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function" or "function" in tool:
        return tool
    function = {key: value for key, value in tool.items() if key != "type" and value is not None}
    return {"type": "function", "function": function}


def _text(text: Any, schemas: Sequence[type]) -> dict[str, Any]:
    if not isinstance(text, dict):
        return {}
    found = {key: value for key, value in text.items() if key == "verbosity"}
    plain = text.get("format")
    if not isinstance(plain, dict) or plain == {"type": "text"}:
        return found
    if plain.get("type") == "json_schema":
        plain = {"type": "json_schema", "json_schema": {key: item for key, item in plain.items() if key != "type"}}
    return {**found, "response_format": response_format(plain, schemas)}


def _messages(request: dict[str, Any], history: History) -> list[BaseMessage]:
    given = request.get("input")
    if isinstance(given, str):
        return [HumanMessage(given)]
    messages: list[BaseMessage] = []
    for mine, group in groupby(items(request, "input"), key=_is_of_model):
        if mine:
            messages += _answers(list(group), history)
        else:
            messages += [_other(item, messages) for item in group]
    return messages


def _is_of_model(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or ("role" not in item and not _is_result(item))


def _is_result(item: dict[str, Any]) -> bool:
    return str(item.get("type")) in _RESULTS


def _answers(group: list[dict[str, Any]], history: History) -> list[BaseMessage]:
    """Return the messages of consecutive items of the model; items of an earlier answer become that answer."""
    found: list[BaseMessage] = []
    rest: list[dict[str, Any]] = []
    for item in group:
        earlier = history.find(_ids(item), _text_of(item))
        if earlier is None:
            rest.append(item)
            continue
        found += [*_own(rest), earlier] if earlier not in found else _own(rest)
        rest = []
    return found + _own(rest)


def _ids(item: dict[str, Any]) -> list[str]:
    return [item[key] for key in ("id", "call_id") if isinstance(item.get(key), str)]


def _text_of(item: dict[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict))


def _own(group: list[dict[str, Any]]) -> list[BaseMessage]:
    """Return the message of items of no earlier answer, in the form of `output_version="responses/v1"`."""
    if not group:
        return []
    blocks: list[str | dict[Any, Any]] = []
    for item in group:
        if item.get("role") == "assistant":
            content = item.get("content")
            parts = [{"text": content}] if isinstance(content, str) else content or []
            blocks += [_block(part, item) for part in parts if isinstance(part, dict)]
        else:
            blocks.append(item)
    calls = [(str(i.get("call_id")), str(i.get("name")), str(i.get("arguments"))) for i in group if _is_call(i)]
    return [AIMessage(blocks, **calls_from_text(calls))]


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call"


def _block(part: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    named = {"id": item["id"]} if "id" in item else {}
    if part.get("type") == "refusal":
        return {**part, **named}
    return {"type": "text", "text": part.get("text", ""), "annotations": part.get("annotations") or [], **named}


def _other(item: dict[str, Any], before: list[BaseMessage]) -> BaseMessage:
    if _is_result(item):
        return _result(item, before)
    role, content = item.get("role"), item.get("content")
    if isinstance(content, list):
        content = [_part(part) for part in content if isinstance(part, dict)]
    content = expect(content, "`content`", str, list)
    if role == "user":
        return HumanMessage(content)
    if role in ("system", "developer"):  # a tuple: the role may be anything
        return SystemMessage(content, additional_kwargs={"__openai_role__": role} if role == "developer" else {})
    raise NotImportableError(f"its request has an item of the unknown role {str(role)[:40]!r}")


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "input_text":
        return {"type": "text", "text": part.get("text", "")}
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"], **({"detail": part["detail"]} if "detail" in part else {})}
        return {"type": "image_url", "image_url": image}
    return part


def _result(item: dict[str, Any], before: list[BaseMessage]) -> ToolMessage:
    call_id = expect(item.get("call_id"), "`call_id`", str)
    output = expect(item.get("output"), "`output`", str, list, dict)
    kind, marks = str(item["type"]), {}
    if kind == "custom_tool_call_output":
        output = [{"type": kind, "output": output}]
    elif kind == "computer_call_output":
        marks = {key: item[key] for key in ("type", "acknowledged_safety_checks") if key in item}
    content = [output] if isinstance(output, dict) else output
    return ToolMessage(content, tool_call_id=call_id, name=tool_names(before).get(call_id), additional_kwargs=marks)
