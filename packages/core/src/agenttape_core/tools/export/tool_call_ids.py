"""The ids that models gave to the calls of tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agenttape_core.schema import MODEL_KINDS, Interaction
from agenttape_core.tools.reading.answer import Answer

_Request = tuple[Any, Any, Any]


def tool_call_ids(interactions: Iterable[Interaction]) -> dict[int, str]:
    """Return the ids that models gave to the calls of tools, by the number of the tool's interaction.

    A recording does not connect the two. A tool's interaction belongs to the request with the same tool name whose id
    it names, or else to the earliest one with the same arguments. Each request has one interaction.

    Args:
        interactions: Those of a cassette, in its order.
    """
    open_calls: list[_Request] = []
    found: dict[int, str] = {}
    for item in interactions:
        if item.kind in MODEL_KINDS:
            open_calls += _requests(item)
        elif item.kind == "tool" and (call := _answers(item, open_calls)) is not None:
            open_calls.remove(call)
            found[item.number] = call[0]
    return found


def _requests(item: Interaction) -> list[_Request]:
    parts = [part for message in Answer(item.outcome).messages for part in message["parts"]]
    calls = [part for part in parts if part.get("type") == "tool_call" and isinstance(part.get("id"), str)]
    return [(call["id"], call["name"], call["arguments"]) for call in calls]


def _answers(item: Interaction, open_calls: list[_Request]) -> _Request | None:
    name, arguments = item.request.get("name", item.name), item.request.get("arguments")
    named = [call for call in open_calls if call[1] == name]
    by_id = [call for call in named if call[0] in item.ids]
    return next(iter([*by_id, *(call for call in named if call[2] == arguments)]), None)
