"""The stand-ins for chat stores and memories: their messages come from a cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn, Unpack

from llama_index.core.memory import BaseMemory
from llama_index.core.storage.chat_store import BaseChatStore
from pydantic import PrivateAttr

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.stand_ins.methods import recorded_methods, remembered
from agenttape_llamaindex.stores import CHAT_READS, CHAT_WRITES, MEMORY, MEMORY_READS, MEMORY_WRITES

_KINDS = frozenset({MEMORY.kind})


class ReplayChatStore(StandIn, BaseChatStore):
    """A chat store that returns the recorded messages, and takes the recorded writes.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a chat store, or none of that one.
    """

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        super().__init__()
        self._recorded = recorded_methods(cassette, _KINDS, {**CHAT_READS, **CHAT_WRITES}, name, **options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayChatStore"

    get_messages, aget_messages = remembered(CHAT_READS, "get_messages")
    get_keys, aget_keys = remembered(CHAT_READS, "get_keys")
    set_messages, aset_messages = remembered(CHAT_WRITES, "set_messages")
    add_message, async_add_message = remembered(CHAT_WRITES, "add_message")
    delete_messages, adelete_messages = remembered(CHAT_WRITES, "delete_messages")
    delete_message, adelete_message = remembered(CHAT_WRITES, "delete_message")
    delete_last_message, adelete_last_message = remembered(CHAT_WRITES, "delete_last_message")


class ReplayMemory(StandIn, BaseMemory):
    """A memory that returns the recorded messages, and takes the recorded writes.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the memory, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a memory, or none of that one.
    """

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        super().__init__()
        self._recorded = recorded_methods(cassette, _KINDS, {**MEMORY_READS, **MEMORY_WRITES}, name, **options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayMemory"

    @classmethod
    def from_defaults(cls, **_: Any) -> NoReturn:
        """Refuse: a stand-in is made of a cassette.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"a {cls.__name__} is made of a cassette, not of defaults\n  construct it by {cls.__name__}(cassette)"
        )

    get, aget = remembered(MEMORY_READS, "get")
    get_all, aget_all = remembered(MEMORY_READS, "get_all")
    put, aput = remembered(MEMORY_WRITES, "put")
    put_messages, aput_messages = remembered(MEMORY_WRITES, "put_messages")
    set, aset = remembered(MEMORY_WRITES, "set")
    reset, areset = remembered(MEMORY_WRITES, "reset")
