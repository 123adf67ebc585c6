"""Calls of chat models, read back from what went over the wire: the parts that all services share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from agenttape_core.integration.importing import EarlierAnswers


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of a chat model."""

    messages: list[BaseMessage]  # the conversation
    # The other arguments of the call: tools, response format, sampling.
    kwargs: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)  # arguments that its model was constructed with
    streamed: bool = False  # whether the answer came as a stream


class History(EarlierAnswers[AIMessage]):
    """The answers that were imported so far."""

    def add(self, message: AIMessage) -> None:
        """Add an answer."""
        self.note(message, _ids_of(message), message.text, has_calls=bool(message.tool_calls))


def _ids_of(message: AIMessage) -> Iterable[str]:
    yield from (call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls) if call["id"])
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict):
            yield from (block[key] for key in ("id", "call_id") if isinstance(block.get(key), str))


def tool_names(messages: Iterable[BaseMessage]) -> dict[str, str]:
    """Return the names of the tools that were called, by the ids of the calls. Results are sent without them."""
    calls = (call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls)
    return {call["id"]: call["name"] for call in calls if call["id"]}


def calls_from_text(calls: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the fields of a message for tool calls whose arguments are text.

    `calls` has the id, name and arguments of each.
    """
    good, bad = [], []
    for call_id, name, text in calls:
        try:
            args = json.loads(text)
        except (ValueError, RecursionError):
            args = None
        if isinstance(args, dict):
            good.append(tool_call(name=name, args=args, id=call_id))
        else:
            bad.append(invalid_tool_call(name=name, args=text, id=call_id, error=None))
    return {"tool_calls": good, "invalid_tool_calls": bad}


def response_format(plain: Any, schemas: Sequence[type]) -> Any:
    """Return the class that a program passes as the response format, if it is one of `schemas`, or else the format.

    `plain` is `{"type": "json_schema", "json_schema": {...}}`.
    """
    schema = plain.get("json_schema") if isinstance(plain, dict) else None
    if not isinstance(schema, dict):
        return plain
    wanted = schema.get("schema")
    fields = set(wanted.get("properties") or ()) if isinstance(wanted, dict) else set()
    for cls in schemas:
        own = cls.model_json_schema() if hasattr(cls, "model_json_schema") else {}
        if cls.__name__ == schema.get("name") and set(own.get("properties") or ()) == fields:
            return cls
    return plain
