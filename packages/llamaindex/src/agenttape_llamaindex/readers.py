"""Substitute readers, which load documents from somewhere else.

Those of LlamaIndex's core read files, or hand on to others: they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from llama_index.core.readers.base import BasePydanticReader, BaseReader

from agenttape_core.integration import (
    Call,
    Cross,
    Family,
    Leaf,
    SessionCall,
    begin,
    coroutine,
    model_of,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import STORE_SETTINGS
from agenttape_llamaindex._compat import static
from agenttape_llamaindex.components import is_boundary_but
from agenttape_llamaindex.requests import method_body
from agenttape_llamaindex.retrievers import RETRIEVAL
from agenttape_llamaindex.shapes import file_call

LOAD = "load_data"
"""The one name of all methods of readers."""


def _cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    arguments = named_arguments(static(type(self), LOAD), (), args, kwargs)
    settings = {**model_of(self), **settings_of(self, STORE_SETTINGS)}
    return begin(RETRIEVAL, self, type(self).__name__, lambda _: method_body(LOAD, arguments, settings))


def _describe_lazy(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    """Describe a call that returns an iterable: a recorded one reads it to its end, since it's recorded as a list."""
    call = file_call()(real, cross, self, *args, **kwargs)
    load: Callable[[], Iterable[Any]] = call.real
    if call.session_call is not None:
        call.real = lambda: list(load())
    return call


def _describe_lazy_async(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
    call = file_call()(real, cross, self, *args, **kwargs)
    load = call.real

    async def listed() -> list[Any]:
        return list(await load())

    if call.session_call is not None:
        call.real = listed
    return call


READERS = Family(
    BaseReader,
    {
        "load_data": Leaf(plain, _cross, file_call()),
        "aload_data": Leaf(coroutine, _cross, file_call()),
        "lazy_load_data": Leaf(plain, _cross, _describe_lazy),
        "alazy_load_data": Leaf(coroutine, _cross, _describe_lazy_async),
    },
    defaults=frozenset({"aload_data", "alazy_load_data"}),
    is_boundary=is_boundary_but(BaseReader, BasePydanticReader),
)
"""Every reader; LlamaIndex's own classes only if they are taped by hand."""
