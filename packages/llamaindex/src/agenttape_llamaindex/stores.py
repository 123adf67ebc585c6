"""Substitute stores outside of the process: of vectors, of graphs, of keys and values, of chats; and memories.

A search is a retrieval, every other call is memory. A write is recorded and replayed like a read: a replay needs no
store. The stores that LlamaIndex keeps in the process run.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

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

Methods = Mapping[str, tuple[str, ...]]
"""The methods of an interface, with the names of their positional arguments."""

ASYNC_NAMES = {"add": "async_add", "add_message": "async_add_message"}
"""The asynchronous forms whose names have more than an `a` before them."""

VECTOR_SEARCHES: Methods = {"query": ("query",), "get_nodes": ("node_ids", "filters")}
VECTOR_WRITES: Methods = {
    "add": ("nodes",),
    "delete": ("ref_doc_id",),
    "delete_nodes": ("node_ids", "filters"),
    "clear": (),
}
GRAPH_SEARCHES: Methods = {
    "get": ("properties", "ids"),
    "get_triplets": ("entity_names", "relation_names", "properties", "ids"),
    "get_rel_map": ("graph_nodes", "depth", "limit", "ignore_rels"),
    "get_llama_nodes": ("node_ids",),
    "structured_query": ("query", "param_map"),
    "vector_query": ("query",),
    "get_schema": ("refresh",),
    "get_schema_str": ("refresh",),
}
GRAPH_WRITES: Methods = {
    "upsert_nodes": ("nodes",),
    "upsert_relations": ("relations",),
    "upsert_llama_nodes": ("llama_nodes",),
    "delete": ("entity_names", "relation_names", "properties", "ids"),
    "delete_llama_nodes": ("node_ids", "ref_doc_ids"),
}
KEY_VALUE_READS: Methods = {
    "get": ("key", "collection"),
    "get_all": ("collection",),
}
KEY_VALUE_WRITES: Methods = {
    "put": ("key", "val", "collection"),
    "put_all": ("kv_pairs", "collection", "batch_size"),
    "delete": ("key", "collection"),
}
CHAT_READS: Methods = {
    "get_messages": ("key",),
    "get_keys": (),
}
CHAT_WRITES: Methods = {
    "set_messages": ("key", "messages"),
    "add_message": ("key", "message"),
    "delete_messages": ("key",),
    "delete_message": ("key", "idx"),
    "delete_last_message": ("key",),
}
DATABASE_READS: Methods = {
    "get_messages": ("key", "status", "limit", "offset"),
    "count_messages": ("key", "status"),
    "get_keys": (),
}
DATABASE_WRITES: Methods = {
    "add_message": ("key", "message", "status"),
    "add_messages": ("key", "messages", "status"),
    "set_messages": ("key", "messages", "status"),
    "delete_message": ("key", "idx"),
    "delete_messages": ("key", "status"),
    "delete_oldest_messages": ("key", "n"),
    "archive_oldest_messages": ("key", "n"),
}
"""The methods of a chat store in a database, all of them asynchronous."""
MEMORY_READS: Methods = {
    "get": ("input",),
    "get_all": (),
}
MEMORY_WRITES: Methods = {
    "put": ("message",),
    "put_messages": ("messages",),
    "set": ("messages",),
    "reset": (),
}


def _cross(  # noqa: PLR0917 - all but the last three are bound for each method
    boundary: Boundary,
    names: tuple[str, ...],
    writes: bool,
    method: str,
    self: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> SessionCall | None:
    if is_in_process(self):
        return None
    arguments = named_arguments(static(type(self), method), names, args, kwargs)
    settings = settings_of(self, STORE_SETTINGS)
    return begin(boundary, self, type(self).__name__, lambda _: method_body(method, arguments, settings), writes=writes)


def _leaves(boundary: Boundary, reads: Methods, writes: Methods) -> dict[str, Leaf]:
    """Return the leaves of a kind of store, whose writes are memory."""
    leaves = {}
    for method, names in {**reads, **writes}.items():
        cross = functools.partial(_cross, boundary if method in reads else MEMORY, names, method in writes, method)
        leaves[method] = spanned(plain, cross)
        leaves[ASYNC_NAMES.get(method, f"a{method}")] = spanned(coroutine, cross)
    return leaves


def _database_leaves() -> dict[str, Leaf]:
    methods = {**DATABASE_READS, **DATABASE_WRITES}
    return {
        name: spanned(coroutine, functools.partial(_cross, MEMORY, names, name in DATABASE_WRITES, name))
        for name, names in methods.items()
    }


def _family(base: type, leaves: dict[str, Leaf]) -> Family:
    """Return a family in which the default methods of the interface count as leaves too."""
    there = {name: static(base, name) for name in leaves}
    own = frozenset(
        name
        for name, method in there.items()
        if callable(method) and not getattr(method, "__isabstractmethod__", False)
    )
    return Family(base, leaves, defaults=own, is_boundary=is_boundary)


VECTOR_STORES = _family(BasePydanticVectorStore, _leaves(RETRIEVAL, VECTOR_SEARCHES, VECTOR_WRITES))
GRAPH_STORES = _family(PropertyGraphStore, _leaves(RETRIEVAL, GRAPH_SEARCHES, GRAPH_WRITES))
KEY_VALUE_STORES = _family(BaseKVStore, _leaves(MEMORY, KEY_VALUE_READS, KEY_VALUE_WRITES))
CHAT_STORES = _family(BaseChatStore, _leaves(MEMORY, CHAT_READS, CHAT_WRITES))
MEMORIES = _family(BaseMemory, _leaves(MEMORY, MEMORY_READS, MEMORY_WRITES))
CHAT_DATABASES = Family(
    AsyncDBChatStore, _database_leaves(), is_boundary=is_boundary_but(AsyncDBChatStore, SQLAlchemyChatStore)
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
