"""Connect LangGraph to the sessions of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def integration() -> Iterator[None]:
    """Connect LangGraph to the sessions of this process; core enters it with the first and leaves it with the last."""
    yield
