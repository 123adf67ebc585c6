"""The settings in which a cassette's model was called, and the one that a new call means.

A stand-in for a model does not know the recorded provider's spelling of a tool or a response format. It recognises them
by names and fields, and then asks in the recorded spelling.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.named_tuples import NamedTuple

_OF_THE_CALL = frozenset({"messages", "prompts"})
_SPELLED = frozenset({"tools", "tool_choice", "response_format", "format", "output_config", "stop"})
_OF_THE_SPELLING = frozenset({"parallel_tool_calls", "strict", "functions", "function_call"})
"""Parameters that providers add to a call when they spell tools and formats."""


class Meaning(NamedTuple):
    """The meaning of the parameters of a call, whatever their spelling.

    Args:
        tools: Each tool's name, description and fields, as sorted JSON texts.
        choice: The tool that must be called: `required` for any, a name, or `None`.
        response_format: The name and fields of the requested format.
        stop: The stop words.
    """

    tools: tuple[str, ...]
    choice: Any
    response_format: tuple[Any, ...] | None
    stop: tuple[str, ...]

    def agrees_with(self, other: Meaning) -> bool:
        """Return whether the parameters of two calls mean the same, whatever the providers leave out."""
        formats = self.response_format, other.response_format
        return self._replace(response_format=None) == other._replace(response_format=None) and formats_agree(*formats)


@dataclass(frozen=True, slots=True)
class Setting:
    """One distinct set of parameters with which a model was called.

    Args:
        params: All of the request but the messages.
        meaning: The meaning of those that have several spellings.
    """

    params: Mapping[str, Any]
    meaning: Meaning
    base: dict[str, Any] = field(init=False, compare=False)
    """The parameters with only one spelling: the model's, and some of the call's, such as `temperature`."""

    @property
    def model(self) -> str | None:
        """The name of the model, if it has one."""
        name = self.params.get("model")
        return name if isinstance(name, str) else None

    def __post_init__(self) -> None:
        """Pick the parameters that have one spelling only."""
        base = {key: value for key, value in self.params.items() if key not in _SPELLED | _OF_THE_SPELLING}
        object.__setattr__(self, "base", base)

    def fits(self, asked: Mapping[str, Any], meaning: Meaning) -> bool:
        """Return whether a call with these parameters may have been made in this setting.

        Args:
            asked: The parameters of the call, plain; the others are the model's own.
            meaning: Their meaning.
        """
        return self.meaning.agrees_with(meaning) and all(
            key in self.params and self.params[key] == value
            for key, value in asked.items()
            if key not in _SPELLED | _OF_THE_SPELLING
        )


def distinct_settings(requests: Iterable[Mapping[str, Any]]) -> list[Setting]:
    """Return the settings of recorded requests, each once; the fewer parameters, the earlier.

    So a call that gives no temperature is first looked for among those that were recorded without one.
    """
    settings: dict[str, Setting] = {}
    last: Mapping[str, Any] | None = None
    for request in requests:
        params = {key: value for key, value in request.items() if key not in _OF_THE_CALL}
        if last is not None and _shares(params, last):
            continue
        last = params
        text = json.dumps(params, sort_keys=True)
        if text not in settings:
            settings[text] = Setting(params, meaning_of(params))
    return sorted(settings.values(), key=lambda setting: len(setting.params))


def _shares(params: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Return whether the parameters are the very objects of the last ones, as a continuation's are."""
    return params.keys() == last.keys() and all(value is last[key] for key, value in params.items())


def meaning_of(params: Mapping[str, Any]) -> Meaning:
    """Return the meaning of the tools, the choice among them, the response format and the stop words.

    Args:
        params: The parameters of a call, as plain data; tools and formats are dicts in any provider's spelling.
    """
    tools = [_tool(tool) for tool in params.get("tools") or ()]
    stop = params.get("stop")
    return Meaning(
        tools=tuple(sorted(json.dumps(tool, sort_keys=True) for tool in tools)),
        choice=_choice(params.get("tool_choice"), tools) if tools else None,
        response_format=format_meaning(_format(params)),
        stop=tuple([stop] if isinstance(stop, str) else stop or ()),
    )


def _tool(tool: Mapping[str, Any]) -> list[Any]:
    """Return the type, name, description and fields of a tool; strictness and layout are the provider's.

    A tool that the provider itself runs (`{"type": "web_search"}`) has one spelling: all of it counts.
    """
    kind = tool.get("type", "function")
    body = tool[kind] if isinstance(tool.get(kind), Mapping) else tool
    schema = body.get("parameters") or body.get("input_schema")
    if schema is None and kind != "function":
        return [kind, {key: value for key, value in body.items() if key != "type"}]
    described = " ".join(str(body.get("description", "")).split())
    return ["function", body.get("name"), described, _fields(schema)]


def _fields(schema: Any) -> list[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return sorted(properties) if isinstance(properties, Mapping) else []


def _choice(choice: Any, tools: list[list[Any]]) -> Any:
    """Return the tool that must be called; where there is only one, its name means the same as `required`."""
    if isinstance(choice, Mapping):
        choice = (choice.get("function") or choice).get("name") or choice.get("type")
    if choice in (None, False, "auto"):
        return None
    only = len(tools) == 1 and choice == tools[0][1]
    return "required" if only or choice in ("any", "required", True) else choice


def _format(params: Mapping[str, Any]) -> Any:
    """Return the requested response format; Ollama names it `format`, Anthropic puts it in `output_config`."""
    config, named = params.get("output_config"), params.get("format")
    asked = params.get("response_format") or (config.get("format") if isinstance(config, Mapping) else None)
    return asked or ({"type": "json_object"} if named == "json" else named or None)


def formats_agree(first: tuple[Any, ...] | None, second: tuple[Any, ...] | None) -> bool:
    """Return whether two response formats mean the same; not every provider sends the name of the format."""
    if first is None or second is None or first[-1] != second[-1]:
        return first == second
    return first[0] == second[0] or None in (first[0], second[0])


def format_meaning(response_format: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    """Return the name and fields of a response format, as a provider's dict or a JSON schema."""
    if response_format is None:
        return None
    if response_format.get("type") in {"json_object", "text"}:
        return (response_format["type"],)
    inner = response_format.get("json_schema", response_format)
    schema = inner.get("schema") or inner.get("parameters") or inner
    return (inner.get("name") or schema.get("title"), tuple(_fields(schema)))
