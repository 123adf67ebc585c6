"""What a cassette's chat requests say besides their messages, and which of it a new call means.

A stand-in for a model does not know how the recorded provider spells a tool or a response format. It recognises what
it is bound to by names and fields, and then asks in the recorded spelling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

_PER_CALL = frozenset(
    {"messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", "functions", "function_call"}
)
Meaning = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One distinct set of parameters with which a model was called.

    Args:
        params: All of the request but the messages.
        meaning: What the per-call ones mean, whatever their spelling.
    """

    params: Mapping[str, Any]
    meaning: Meaning

    @property
    def model(self) -> str | None:
        """The model that was asked, when it has a name."""
        name = self.params.get("model")
        return name if isinstance(name, str) else None

    @property
    def base(self) -> dict[str, Any]:
        """The parameters that belong to the model and not to the call."""
        return {key: value for key, value in self.params.items() if key not in _PER_CALL}


def setting_of(request: Mapping[str, Any]) -> Setting:
    """Return the setting of a recorded request."""
    params = {key: value for key, value in request.items() if key != "messages"}
    return Setting(params, meaning_of(params))


def meaning_of(params: Mapping[str, Any]) -> Meaning:
    """Return what the per-call parameters mean: the tools, the choice among them, the response format, the stops."""
    tools = tuple(sorted(json.dumps(_tool(tool), sort_keys=True) for tool in params.get("tools") or ()))
    stop = params.get("stop")
    return (
        tools,
        _choice(params.get("tool_choice")) if tools else None,
        format_meaning(params.get("response_format")),
        tuple([stop] if isinstance(stop, str) else stop or ()),
    )


def _tool(tool: Any) -> Any:
    """Return the name, description and fields of a tool; strictness and layout are the provider's."""
    if not isinstance(tool, Mapping):
        tool = convert_to_openai_tool(tool)
    function = tool.get("function", tool)
    schema = function.get("parameters") or function.get("input_schema") or {}
    described = " ".join(str(function.get("description", "")).split())
    return [tool.get("type", "function"), function.get("name"), described, _fields(schema)]


def _fields(schema: Any) -> Any:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return sorted(properties) if isinstance(properties, Mapping) else []


def _choice(choice: Any) -> Any:
    if isinstance(choice, Mapping):
        choice = (choice.get("function") or choice).get("name") or choice.get("type")
    if choice in {None, False, "auto"}:
        return None
    return "required" if choice in {"any", "required", True} else choice


def format_meaning(response_format: Any) -> Any:
    """Return the name and fields of a response format, as a provider's dict, a JSON schema or a class."""
    if response_format is None:
        return None
    if isinstance(response_format, Mapping) and response_format.get("type") in {"json_object", "text"}:
        return (response_format["type"],)
    if isinstance(response_format, Mapping):
        inner = response_format.get("json_schema", response_format)
        schema = inner.get("schema", inner)
        name = inner.get("name") or schema.get("title")
    else:
        schema = convert_to_json_schema(response_format)
        name = schema.get("title")
    return (name, tuple(_fields(schema)))
