"""The stand-ins for stores and memories: their contents come from a cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn, Unpack

from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.memory import BaseMemory
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.kvstore.types import BaseKVStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from pydantic import PrivateAttr

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.retrievers import RETRIEVAL
from agenttape_llamaindex.stand_ins.methods import recorded_methods, replayed
from agenttape_llamaindex.stores import (
    CHAT_METHODS,
    GRAPH_METHODS,
    KEY_VALUE_METHODS,
    MEMORY_METHODS,
    VECTOR_METHODS,
)


class ReplayVectorStore(StandIn, BasePydanticVectorStore):
    """A vector store that returns the recorded results, and takes the recorded writes.

    A cassette does not say whether the recorded store keeps the texts of its nodes, and whether it takes the vector of
    a query. Give both if they are not as most stores have them.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        stores_text: Whether it keeps the texts of its nodes.
        is_embedding_query: Whether queries are embedded for it.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a vector store, or none of that one.
    """

    stores_text: bool = True

    _recorded: RecordedPart = PrivateAttr()

    def __init__(
        self,
        cassette: str | Path,
        *,
        name: str | None = None,
        stores_text: bool = True,
        is_embedding_query: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(stores_text=stores_text, is_embedding_query=is_embedding_query)
        self._recorded = recorded_methods(cassette, VECTOR_METHODS, name, **options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayVectorStore"

    @property
    def client(self) -> Any:
        """None: no service is behind it."""
        return None

    query, aquery = replayed(VECTOR_METHODS, "query")
    get_nodes, aget_nodes = replayed(VECTOR_METHODS, "get_nodes")
    add, async_add = replayed(VECTOR_METHODS, "add")
    delete, adelete = replayed(VECTOR_METHODS, "delete")
    delete_nodes, adelete_nodes = replayed(VECTOR_METHODS, "delete_nodes")
    clear, aclear = replayed(VECTOR_METHODS, "clear")


class ReplayKVStore(StandIn, BaseKVStore):
    """A key-value store that returns the recorded values, and takes the recorded writes.

    A document store or an index store is made of it: `KVDocumentStore(ReplayKVStore(cassette))`.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a key-value store, or none of that one.
    """

    _recorded: RecordedPart

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        self._recorded = recorded_methods(cassette, KEY_VALUE_METHODS, name, **options)

    get, aget = replayed(KEY_VALUE_METHODS, "get")
    get_all, aget_all = replayed(KEY_VALUE_METHODS, "get_all")
    put, aput = replayed(KEY_VALUE_METHODS, "put")
    put_all, aput_all = replayed(KEY_VALUE_METHODS, "put_all")
    delete, adelete = replayed(KEY_VALUE_METHODS, "delete")


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
        self._recorded = recorded_methods(cassette, CHAT_METHODS, name, **options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayChatStore"

    get_messages, aget_messages = replayed(CHAT_METHODS, "get_messages")
    get_keys, aget_keys = replayed(CHAT_METHODS, "get_keys")
    set_messages, aset_messages = replayed(CHAT_METHODS, "set_messages")
    add_message, async_add_message = replayed(CHAT_METHODS, "add_message")
    delete_messages, adelete_messages = replayed(CHAT_METHODS, "delete_messages")
    delete_message, adelete_message = replayed(CHAT_METHODS, "delete_message")
    delete_last_message, adelete_last_message = replayed(CHAT_METHODS, "delete_last_message")


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
        self._recorded = recorded_methods(cassette, MEMORY_METHODS, name, **options)

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

    get, aget = replayed(MEMORY_METHODS, "get")
    get_all, aget_all = replayed(MEMORY_METHODS, "get_all")
    put, aput = replayed(MEMORY_METHODS, "put")
    put_messages, aput_messages = replayed(MEMORY_METHODS, "put_messages")
    set, aset = replayed(MEMORY_METHODS, "set")
    reset, areset = replayed(MEMORY_METHODS, "reset")


class ReplayPropertyGraphStore(StandIn, PropertyGraphStore):
    """A property graph store that returns the recorded results, and takes the recorded writes.

    It counts as one that answers structured queries, or queries by a vector, if the cassette holds such a query.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a property graph store, or none of that one.
    """

    _recorded: RecordedPart

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        self._recorded = recorded_methods(cassette, GRAPH_METHODS, name, **options)
        asked = {request.get("method") for _, request in self._recorded.requests(RETRIEVAL.kind)}
        self.supports_structured_queries = "structured_query" in asked
        self.supports_vector_queries = "vector_query" in asked

    get, aget = replayed(GRAPH_METHODS, "get")
    get_triplets, aget_triplets = replayed(GRAPH_METHODS, "get_triplets")
    get_rel_map, aget_rel_map = replayed(GRAPH_METHODS, "get_rel_map")
    get_llama_nodes, aget_llama_nodes = replayed(GRAPH_METHODS, "get_llama_nodes")
    structured_query, astructured_query = replayed(GRAPH_METHODS, "structured_query")
    vector_query, avector_query = replayed(GRAPH_METHODS, "vector_query")
    get_schema, aget_schema = replayed(GRAPH_METHODS, "get_schema")
    get_schema_str, aget_schema_str = replayed(GRAPH_METHODS, "get_schema_str")
    upsert_nodes, aupsert_nodes = replayed(GRAPH_METHODS, "upsert_nodes")
    upsert_relations, aupsert_relations = replayed(GRAPH_METHODS, "upsert_relations")
    upsert_llama_nodes, aupsert_llama_nodes = replayed(GRAPH_METHODS, "upsert_llama_nodes")
    delete, adelete = replayed(GRAPH_METHODS, "delete")
    delete_llama_nodes, adelete_llama_nodes = replayed(GRAPH_METHODS, "delete_llama_nodes")
