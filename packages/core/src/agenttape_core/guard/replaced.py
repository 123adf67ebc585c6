"""Attributes that have another value for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def replaced(owner: Any, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """Give an attribute another value, and the old one back, unless somebody else replaces it meanwhile."""
    absent = object()
    before = vars(owner).get(name, absent)
    setattr(owner, name, wrapper)
    try:
        yield
    finally:
        if vars(owner).get(name) is wrapper:
            if before is absent:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
