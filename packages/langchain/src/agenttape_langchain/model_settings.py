"""What a call of a chat model means, in whatever form LangChain takes its tools and its response format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

from agenttape_core import integration
from agenttape_core.integration import Meaning

_FORMATS = ("response_format", "format")


def meaning_of(params: Mapping[str, Any]) -> Meaning:
    """Return what the tools, the choice among them, the response format and the stop words mean."""
    spelled: dict[str, Any] = {name: _format(params[name]) for name in _FORMATS if name in params}
    if params.get("tools"):
        spelled["tools"] = [_tool(tool) for tool in params["tools"]]
    return integration.meaning_of({**params, **spelled})


def _tool(tool: Any) -> Mapping[str, Any]:
    return tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool)


def _format(response_format: Any) -> Any:
    is_spelled = response_format is None or isinstance(response_format, Mapping | str)
    return response_format if is_spelled else convert_to_json_schema(response_format)


def format_meaning(response_format: Any) -> tuple[Any, ...] | None:
    """Return the name and fields of a response format, as a provider's dict, a JSON schema or a class."""
    return integration.format_meaning(_format(response_format))
