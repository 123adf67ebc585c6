"""Substitute cross encoders: models that score pairs of texts."""

from __future__ import annotations

from typing import Any

from langchain_core.cross_encoders import BaseCrossEncoder

from agenttape_core.integration import (
    Family,
    Leaf,
    SessionCall,
    begin,
    model_of,
    named_arguments,
    plain,
    settings_of,
)
from agenttape_core.integration.object_settings import SEARCH_SETTINGS
from agenttape_langchain.requests import RETRIEVAL, method_body

_SCORE = "score"


def _cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    arguments = named_arguments(getattr(type(self), _SCORE), ("text_pairs",), args, kwargs)
    settings = {**model_of(self), **settings_of(self, SEARCH_SETTINGS)}
    return begin(RETRIEVAL, self, type(self).__name__, lambda _: method_body(_SCORE, arguments, settings))


CROSS_ENCODERS = Family(BaseCrossEncoder, {_SCORE: Leaf(plain, _cross)})
"""Every cross encoder."""
