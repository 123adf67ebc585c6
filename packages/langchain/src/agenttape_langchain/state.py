"""Ids around a tool: of the tasks of its graphs, and of the messages in the state that is injected into it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

_STATE = "state"
"""The attribute of a runtime that holds the state; all others lead back to the graph."""


_TASK = re.compile(r":([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=\||$)")


def ids_of_tasks(metadata: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tasks of graphs in which a run is made, the outermost first.

    Args:
        metadata: The metadata of the run; LangGraph puts the namespace of the task there.
    """
    return _TASK.findall(str(metadata.get("langgraph_checkpoint_ns", "")))


def ids_of_messages(value: Any) -> Iterator[str]:
    """Yield the ids of the messages in a value, in its order; an empty text for a message without an id.

    Args:
        value: Arguments, a state, or a runtime that holds one.
    """
    if isinstance(value, BaseMessage):
        yield value.id or ""
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from ids_of_messages(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from ids_of_messages(item)
    elif isinstance(value, BaseModel):
        yield from ids_of_messages(dict(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        for name in [_STATE] if _STATE in names else names:
            yield from ids_of_messages(getattr(value, name, None))
