"""Substitute document compressors (rerankers, and others that filter or shorten documents), and cross encoders.

A compressor whose code only asks other boundaries, such as a model or a cross encoder, runs in a replay.
"""

from __future__ import annotations

from typing import Any

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor

from agenttape_core.integration import (
    SEARCH_SETTINGS,
    Crossing,
    Family,
    Leaf,
    begin,
    coroutine,
    model_of,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_langchain.requests import method_body
from agenttape_langchain.retrievers import SEARCH
from agenttape_langchain.vector_stores import RETRIEVAL

_METHOD = "compress_documents"
_SCORE = "score"


def _cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
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


def _cross_score(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
    arguments = named_arguments(getattr(type(self), _SCORE), ("text_pairs",), args, kwargs)
    settings = {**model_of(self), **settings_of(self, SEARCH_SETTINGS)}
    return begin(RETRIEVAL, self, type(self).__name__, lambda _: method_body(_SCORE, arguments, settings))


CROSS_ENCODERS = Family(BaseCrossEncoder, {_SCORE: Leaf(plain, _cross_score)})
"""Every cross encoder: a model that scores pairs of texts."""
