"""The conversation of a run in OpenAI's form, which evaluators of other libraries read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agenttape_core.schema import Interaction
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.reading.messages import input_messages
from agenttape_core.tools.reading.turns import text_of


def conversation_of(last: Interaction | None) -> list[dict[str, Any]]:
    """Return the messages of a conversation with its last answer.

    Args:
        last: The call of the model that gave the last answer; `None` if there was none.
    """
    if last is None:
        return []
    messages = [*input_messages(last.request), *Answer(last.outcome).messages]
    return [converted for message in messages for converted in _converted(message)]


def _converted(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message as OpenAI writes it; of results of tools, one for each."""
    results = [part for part in message["parts"] if part["type"] == "tool_call_response"]
    if results:
        return [
            {"role": "tool", "tool_call_id": str(part.get("id") or ""), "content": _text(part.get("response"))}
            for part in results
        ]
    calls = [_call(part) for part in message["parts"] if part["type"] == "tool_call"]
    whole = {"role": message["role"], "content": text_of(dict(message))}
    return [{**whole, "tool_calls": calls} if calls else whole]


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part["arguments"] if part["arguments"] is not None else {}
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {
        "id": str(part.get("id") or ""),
        "type": "function",
        "function": {"name": part["name"], "arguments": written},
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
