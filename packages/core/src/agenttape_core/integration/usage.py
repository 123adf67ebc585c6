"""The token counts in an answer, in the words of the providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.schema import Usage

_INPUT = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_OUTPUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
_LAST = 3
"""Providers put the counts of a stream into one of its last chunks."""


def tokens_in(*holders: Any) -> Usage | None:
    """Return the counts of the first holder that has some; `None` if none has.

    Args:
        holders: Mappings or objects with the counts of OpenAI, Anthropic, Google or Ollama.
    """
    for holder in holders:
        counts = [_count(holder, names) for names in (_INPUT, _OUTPUT)]
        if any(count is not None for count in counts):
            return Usage(input_tokens=counts[0], output_tokens=counts[1])
    return None


def usage_in(answer: Any) -> Usage | None:
    """Return the token counts of an answer as an SDK returns it, or of a list of chunks whose last ones have them.

    Args:
        answer: A mapping or an object with `usage` or `usage_metadata`, or with the counts themselves; or chunks.
    """
    chunks = reversed(answer[-_LAST:]) if isinstance(answer, list) else (answer,)  # a list may hold all of an index
    each = (tokens_in(field_of(one, "usage"), field_of(one, "usage_metadata"), one) for one in chunks)
    return next(filter(None, each), None)


def field_of(holder: Any, name: str) -> Any:
    """Return a field of a mapping or an object; `None` if it has none of this name."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _count(holder: Any, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if type(count := field_of(holder, name)) is int), None)
