"""Substitute stores outside of the process: of vectors, of graphs, of keys and values, of chats; and memories.

A search is a retrieval, every other call is memory. A write is recorded and replayed like a read: a replay needs no
store. The stores that LlamaIndex keeps in the process run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.memory import BaseMemory
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.storage.kvstore.types import BaseKVStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import (
    Boundary,
    Cross,
    Family,
    Leaf,
    SessionCall,
    begin,
    coroutine,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import STORE_SETTINGS
from agenttape_llamaindex._compat import is_in_process, static
from agenttape_llamaindex.components import is_boundary, is_boundary_but, spanned
from agenttape_llamaindex.containers import tape_container
from agenttape_llamaindex.requests import method_body
from agenttape_llamaindex.retrievers import RETRIEVAL

MEMORY = Boundary("memory")

ASYNC_NAMES = {"add": "async_add", "add_message": "async_add_message"}
"""The asynchronous forms whose names have more than an `a` before them."""


class Method(NamedTuple):
    """A method of an interface."""

    names: tuple[str, ...]  # the names of its positional arguments
    boundary: Boundary
    writes: bool = False


Methods = Mapping[str, Method]


def _search(*names: str) -> Method:
    return Method(names, RETRIEVAL)


def _read(*names: str) -> Method:
    return Method(names, MEMORY)


def _write(*names: str) -> Method:
    return Method(names, MEMORY, writes=True)


VECTOR_METHODS: Methods = {
    "query": _search("query"),
    "get_nodes": _search("node_ids", "filters"),
    "add": _write("nodes"),
    "delete": _write("ref_doc_id"),
    "delete_nodes": _write("node_ids", "filters"),
    "clear": _write(),
}
GRAPH_METHODS: Methods = {
    "get": _search("properties", "ids"),
    "get_triplets": _search("entity_names", "relation_names", "properties", "ids"),
    "get_rel_map": _search("graph_nodes", "depth", "limit", "ignore_rels"),
    "get_llama_nodes": _search("node_ids"),
    "structured_query": _search("query", "param_map"),
    "vector_query": _search("query"),
    "get_schema": _search("refresh"),
    "get_schema_str": _search("refresh"),
    "upsert_nodes": _write("nodes"),
    "upsert_relations": _write("relations"),
    "upsert_llama_nodes": _write("llama_nodes"),
    "delete": _write("entity_names", "relation_names", "properties", "ids"),
    "delete_llama_nodes": _write("node_ids", "ref_doc_ids"),
}
KEY_VALUE_METHODS: Methods = {
    "get": _read("key", "collection"),
    "get_all": _read("collection"),
    "put": _write("key", "val", "collection"),
    "put_all": _write("kv_pairs", "collection", "batch_size"),
    "delete": _write("key", "collection"),
}
CHAT_METHODS: Methods = {
    "get_messages": _read("key"),
    "get_keys": _read(),
    "set_messages": _write("key", "messages"),
    "add_message": _write("key", "message"),
    "delete_messages": _write("key"),
    "delete_message": _write("key", "idx"),
    "delete_last_message": _write("key"),
}
DATABASE_METHODS: Methods = {
    "get_messages": _read("key", "status", "limit", "offset"),
    "count_messages": _read("key", "status"),
    "get_keys": _read(),
    "add_message": _write("key", "message", "status"),
    "add_messages": _write("key", "messages", "status"),
    "set_messages": _write("key", "messages", "status"),
    "delete_message": _write("key", "idx"),
    "delete_messages": _write("key", "status"),
    "delete_oldest_messages": _write("key", "n"),
    "archive_oldest_messages": _write("key", "n"),
}
"""The methods of a chat store in a database, all of them asynchronous."""
MEMORY_METHODS: Methods = {
    "get": _read("input"),
    "get_all": _read(),
    "put": _write("message"),
    "put_messages": _write("messages"),
    "set": _write("messages"),
    "reset": _write(),
}


def _crossing(name: str, method: Method) -> Cross:
    def cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
        if is_in_process(self):
            return None
        arguments = named_arguments(static(type(self), name), method.names, args, kwargs)
        settings = settings_of(self, STORE_SETTINGS)
        return begin(
            method.boundary,
            self,
            type(self).__name__,
            lambda _: method_body(name, arguments, settings),
            writes=method.writes,
        )

    return cross


def _leaves(methods: Methods) -> dict[str, Leaf]:
    leaves = {}
    for name, method in methods.items():
        cross = _crossing(name, method)
        leaves[name] = spanned(plain, cross)
        leaves[ASYNC_NAMES.get(name, f"a{name}")] = spanned(coroutine, cross)
    return leaves


def _family(base: type, leaves: dict[str, Leaf]) -> Family:
    """Return a family in which the default methods of the interface count as leaves too."""
    there = {name: static(base, name) for name in leaves}
    own = frozenset(
        name
        for name, method in there.items()
        if callable(method) and not getattr(method, "__isabstractmethod__", False)
    )
    return Family(base, leaves, defaults=own, is_boundary=is_boundary)


VECTOR_STORES = _family(BasePydanticVectorStore, _leaves(VECTOR_METHODS))
GRAPH_STORES = _family(PropertyGraphStore, _leaves(GRAPH_METHODS))
KEY_VALUE_STORES = _family(BaseKVStore, _leaves(KEY_VALUE_METHODS))
CHAT_STORES = _family(BaseChatStore, _leaves(CHAT_METHODS))
MEMORIES = _family(BaseMemory, _leaves(MEMORY_METHODS))
CHAT_DATABASES = Family(
    AsyncDBChatStore,
    {name: spanned(coroutine, _crossing(name, method)) for name, method in DATABASE_METHODS.items()},
    is_boundary=is_boundary_but(AsyncDBChatStore, SQLAlchemyChatStore),
)

STORES = (VECTOR_STORES, GRAPH_STORES, KEY_VALUE_STORES, CHAT_STORES, CHAT_DATABASES, MEMORIES)
"""The families of stores; LlamaIndex's own classes run, except a chat store in a database elsewhere."""


def tape_store(store: Any) -> Any:
    """Return the taped alias of a store; a taped one is returned unchanged.

    One in memory runs on every replay, and the calls that it makes are taped. Raises `ConfigurationError` if it keeps
    its messages in the process.
    """
    family = next(family for family in STORES if isinstance(store, family.base))
    if not family.is_boundary(type(store)) and family is not CHAT_DATABASES:
        return tape_container(store)
    if is_in_process(store):
        raise ConfigurationError(
            f"cannot tape {type(store).__module__}.{type(store).__qualname__}: it keeps its messages in the process, "
            "where a replay finds them as a recording did\n  use it as it is"
        )
    return family.tape(store)
