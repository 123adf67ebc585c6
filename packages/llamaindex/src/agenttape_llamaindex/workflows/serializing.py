"""The serializer that reads the events and the state of workflows; it imports no class that a file names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from workflows import Workflow
from workflows.context.serializers import JsonSerializer

from agenttape_core.integration import loaded_class
from agenttape_llamaindex._compat import is_in_process

# -- Memories of agents as plain data: the state of a workflow holds them, and the framework does not write them.

MEMORY = "$memory"
"""The key under which a memory is written: its class. Beside it are its `settings` and its `messages`."""
_SETTINGS: Mapping[type[BaseMemory], tuple[str, ...]] = {
    Memory: ("token_limit", "token_flush_size", "chat_history_token_ratio", "insert_method", "session_id"),
    ChatMemoryBuffer: ("token_limit", "chat_store_key"),
}
_TABLE = "llama_index_memory"

Messages = dict[str, list[ChatMessage]]
"""The messages of a memory by their status."""


async def messages_of(state: Mapping[str, Any]) -> dict[int, Messages]:
    """Return the messages of the memories in a state, by the identity of the memory.

    Only of memories in this process: the run would notice a query of a database elsewhere.
    """
    memories = [value for value in state.values() if type(value) in _SETTINGS]
    found = [(id(memory), await _messages(memory)) for memory in memories]
    return {identity: messages for identity, messages in found if messages is not None}


async def _messages(memory: Any) -> Messages | None:
    if isinstance(memory, ChatMemoryBuffer):
        store = memory.chat_store
        near = type(store) is SimpleChatStore
        return {MessageStatus.ACTIVE.value: store.get_messages(memory.chat_store_key)} if near else None
    if memory.memory_blocks or not is_in_process(memory.sql_store):
        return None
    store, key = memory.sql_store, memory.session_id
    return {status.value: await store.get_messages(key, status=status) for status in MessageStatus}


def settings_of(memory: BaseMemory) -> list[Any]:
    """Return what decides how the settings of a memory are written."""
    return [getattr(memory, name) for name in _SETTINGS[type(memory)]]


def written_settings(memory: BaseMemory) -> dict[str, Any]:
    """Return a memory as plain data, but for its messages."""
    cls = type(memory)
    return {MEMORY: cls.__name__, "settings": memory.model_dump(mode="json", include=set(_SETTINGS[cls]))}


def read_memory(plain: Mapping[str, Any]) -> BaseMemory:
    """Return the memory of plain data. Raises `ValueError` if its class is unknown."""
    settings, messages = plain["settings"], plain["messages"]
    if plain[MEMORY] == ChatMemoryBuffer.__name__:
        store, key = SimpleChatStore(), settings["chat_store_key"]
        store.set_messages(key, [ChatMessage.model_validate(item) for item in messages.get("active", ())])
        return ChatMemoryBuffer(chat_store=store, **settings)
    if plain[MEMORY] != Memory.__name__:
        raise ValueError(f"the recording has a memory of the unknown class {plain[MEMORY]}")
    in_order = [(status.value, item) for status in reversed(MessageStatus) for item in messages.get(status.value, ())]
    rows = [
        {"key": settings["session_id"], "timestamp": at, "role": item["role"], "status": status, "data": item}
        for at, (status, item) in enumerate(in_order)
    ]
    return Memory(sql_store=SQLAlchemyChatStore(_TABLE, db_data=rows), **settings)


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
