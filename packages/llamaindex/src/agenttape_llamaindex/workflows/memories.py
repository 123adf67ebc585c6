"""Memories of agents as plain data: the state of a workflow holds them, and the framework does not write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from agenttape_llamaindex._compat import is_in_process

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
