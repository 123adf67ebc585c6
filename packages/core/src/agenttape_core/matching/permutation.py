"""Requests that are the same but for the order of their parts, as when a set was iterated."""

from __future__ import annotations

import re

from agenttape_core.schema import Plain

_PARTS = re.compile(r"\w+|[^\s\w]")


def is_permuted(recorded: Plain, asked: Plain) -> bool:
    """Return True if two values differ, and only in the order of items of lists, of keys, or of words in texts."""
    return recorded != asked and _unordered(recorded) == _unordered(asked)


def _unordered(value: Plain) -> object:
    if isinstance(value, str):
        return "text", tuple(sorted(_PARTS.findall(value)))
    if isinstance(value, list):
        return "list", tuple(sorted((_unordered(item) for item in value), key=repr))
    if isinstance(value, dict):
        return "dict", tuple(sorted((key, _unordered(item)) for key, item in value.items()))
    return type(value).__name__, repr(value)
