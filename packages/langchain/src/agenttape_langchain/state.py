"""Ids around a tool: of the tasks of its graphs, and those in the state that is injected into it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

_STATE = "state"
"""The attribute of a runtime that holds the state; all others lead back to the graph."""


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TASK = re.compile(rf":({_UUID.pattern})(?=\||$)")
_LENGTH = 36
"""The length of a UUID in characters."""
_IN_MESSAGES = ("content", "tool_calls", "tool_call_id", "additional_kwargs")
"""The fields of messages that may hold ids which the program has drawn."""


def ids_of_tasks(metadata: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tasks of graphs in which a run is made, the outermost first.

    Args:
        metadata: The metadata of the run; LangGraph puts the namespace of the task there.
    """
    return _TASK.findall(str(metadata.get("langgraph_checkpoint_ns", "")))


def ids_in_state(value: Any) -> Iterator[str]:
    """Yield the ids in a value, in its order: of messages (an empty text if one has none), and UUIDs in texts.

    Args:
        value: Arguments, a state, or a runtime that holds one.
    """
    if isinstance(value, str):
        if len(value) >= _LENGTH:
            yield from _UUID.findall(value)
    elif isinstance(value, UUID):
        yield str(value)
    else:
        if isinstance(value, BaseMessage):
            yield value.id or ""
        for part in _parts(value):
            yield from ids_in_state(part)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, BaseMessage):
        return [getattr(value, name, None) for name in _IN_MESSAGES]
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, BaseModel):
        return dict(value).values()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [getattr(value, name, None) for name in ([_STATE] if _STATE in names else names)]
    return ()
