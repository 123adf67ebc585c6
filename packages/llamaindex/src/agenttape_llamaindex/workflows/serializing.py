"""The serializer that reads the events and the state of workflows; it imports no class that a file names."""

from __future__ import annotations

import json
from typing import Any

from workflows import Workflow
from workflows.context.serializers import JsonSerializer

from agenttape_core.integration import loaded_class
from agenttape_llamaindex.workflows.memories import MEMORY, read_memory

MISSING = "$missing"
"""Stands for a value of the state that has no JSON form."""
HELD = "$held"
"""Stands for an object of this process, in the state of a context that has not begun to run."""


class ReadingSerializer(JsonSerializer):
    """Reads recorded values, of classes that this program has loaded only."""

    def __init__(self, workflow: Workflow) -> None:
        super().__init__()
        self._events = {f"{event.__module__}.{event.__name__}": event for event in workflow.events}
        self._held: list[Any] = []

    def hold(self, value: Any) -> str:
        """Return the mark for an object of this process."""
        self._held.append(value)
        return json.dumps({HELD: len(self._held) - 1})

    def resolve_class(self, qualified_name: str) -> type[Any]:
        """Return the class that a recording names; it is not imported for that.

        Raises `ValueError` if no module of this program has it.
        """
        module, _, name = qualified_name.rpartition(".")
        found = self._events.get(qualified_name) or loaded_class(f"{module}:{name}")
        if found is None:
            raise ValueError(
                f"the recording needs the class {qualified_name}, which this program has not imported: import it first"
            )
        return found

    def serialize(self, value: Any) -> str:
        """Write a value for the same process to read."""
        try:
            return super().serialize(value)
        except ValueError:
            return self.hold(value)

    def deserialize_value(self, data: Any) -> Any:
        """Read a value."""
        if isinstance(data, dict) and MEMORY in data:
            return read_memory(data)
        if isinstance(data, dict) and HELD in data:
            return self._held[data[HELD]]
        return super().deserialize_value(data)
