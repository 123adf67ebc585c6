"""Substitute document compressors: rerankers, and others that filter or shorten documents.

A compressor whose code only asks other boundaries, such as a model or a cross encoder, runs in a replay.
"""

from __future__ import annotations

from typing import Any

from langchain_core.documents import BaseDocumentCompressor

from agenttape_core.integration import (
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
from agenttape_core.integration.object_settings import SEARCH_SETTINGS
from agenttape_langchain.requests import SEARCH, method_body

_METHOD = "compress_documents"


def _cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    arguments = named_arguments(getattr(type(self), _METHOD), ("documents", "query", "callbacks"), args, kwargs)
    arguments.pop("callbacks", None)
    settings = {**model_of(self), **settings_of(self, SEARCH_SETTINGS)}
    return begin(SEARCH, self, type(self).__name__, lambda _: method_body(_METHOD, arguments, settings))


COMPRESSORS = Family(
    BaseDocumentCompressor,
    {_METHOD: Leaf(plain, _cross), f"a{_METHOD}": Leaf(coroutine, _cross)},
    defaults=frozenset({f"a{_METHOD}"}),
)
"""Every document compressor."""
