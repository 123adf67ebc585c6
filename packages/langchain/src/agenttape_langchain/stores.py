"""Substitute key-value stores elsewhere (`BaseStore` of LangChain; LangGraph has another class of that name).

A store in memory is part of the program, and runs on every replay.
"""

from __future__ import annotations

import functools
from typing import Any

from langchain_core.stores import BaseStore

from agenttape_core.integration import (
    Family,
    InMemoryClasses,
    Leaf,
    SessionCall,
    async_generator,
    begin,
    coroutine,
    generator,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import STORE_SETTINGS
from agenttape_core.integration.shapes import Shape
from agenttape_langchain.requests import MEMORY, method_body

METHODS: dict[str, tuple[str, ...]] = {
    "mget": ("keys",),
    "mset": ("key_value_pairs",),
    "mdelete": ("keys",),
    "yield_keys": ("prefix",),
}
"""The methods of the interface, and its names of their positional arguments."""


WRITES = frozenset({"mset", "mdelete"})

_KNOWN = ("langchain_core.stores.InMemoryBaseStore",)

IN_MEMORY = InMemoryClasses(_KNOWN, {name for method in METHODS for name in (method, f"a{method}")})


def runs(store: Any) -> bool:
    """Return whether a key-value store keeps its items in this process."""
    return type(store) in IN_MEMORY


def _cross(method: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    if runs(self):
        return None
    arguments = named_arguments(getattr(type(self), method), METHODS[method], args, kwargs)
    settings = settings_of(self, STORE_SETTINGS)
    return begin(
        MEMORY,
        self,
        type(self).__name__,
        lambda _: method_body(method, arguments, settings),
        writes=method in WRITES,
    )


def _leaves() -> dict[str, Leaf]:
    leaves = {}
    for method in METHODS:
        shapes: tuple[Shape, Shape] = (plain, coroutine) if method != "yield_keys" else (generator, async_generator)
        for name, shape in zip((method, f"a{method}"), shapes, strict=True):
            leaves[name] = Leaf(shape, functools.partial(_cross, method))
    return leaves


STORES = Family(
    BaseStore,
    _leaves(),
    defaults=frozenset(f"a{method}" for method in METHODS),
    is_boundary=lambda cls: cls not in IN_MEMORY,
    is_made_of_parts=runs,
)
"""Every key-value store."""
