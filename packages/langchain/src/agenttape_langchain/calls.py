"""The boundary of calls that are replayed as a whole: runnables, and objects built on them."""

from __future__ import annotations

from typing import Any

from agenttape_core.integration import Boundary


def _joined(chunks: list[Any]) -> Any:
    """Return what LangChain makes of a stream: the sum of its chunks, or the last one if they cannot be added."""
    whole = chunks[0] if chunks else None
    for chunk in chunks[1:]:
        try:
            whole = whole + chunk
        except TypeError:
            whole = chunk
    return whole


CALL = Boundary("call", join=_joined, split=lambda value: [value])
