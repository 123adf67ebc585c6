"""Substitute key-value stores elsewhere (`BaseStore` of LangChain; LangGraph has another class of that name).

A store in memory is part of the program, and runs on every replay.
"""

from __future__ import annotations

from typing import Any

from langchain_core.stores import BaseStore

from agenttape_core.integration import Family, InMemoryClasses, async_generator, generator
from agenttape_langchain.requests import Method, Methods, forms_of, leaves_of

METHODS: Methods = {
    "mget": Method(("keys",)),
    "mset": Method(("key_value_pairs",), writes=True),
    "mdelete": Method(("keys",), writes=True),
    "yield_keys": Method(("prefix",)),
}

IN_MEMORY = InMemoryClasses(("langchain_core.stores.InMemoryBaseStore",), forms_of(METHODS))


def runs(store: Any) -> bool:
    """Return whether a key-value store keeps its items in this process."""
    return type(store) in IN_MEMORY


_LEAVES = leaves_of(METHODS, runs)
_STREAMS = {
    "yield_keys": _LEAVES["yield_keys"]._replace(shape=generator),
    "ayield_keys": _LEAVES["ayield_keys"]._replace(shape=async_generator),
}

STORES = Family(
    BaseStore,
    {**_LEAVES, **_STREAMS},
    defaults=frozenset(f"a{method}" for method in METHODS),
    is_boundary=lambda cls: cls not in IN_MEMORY,
    is_made_of_parts=runs,
)
"""Every key-value store."""
