"""The token counts of a response, wherever its provider puts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.integration import Usage

_INPUT = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_OUTPUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")


def usage_of(response: Any) -> Usage | None:
    """Return the token counts of a chat response or a completion, if it has any."""
    raw = response.raw
    for holder in (_get(raw, "usage"), _get(raw, "usage_metadata"), raw, response.additional_kwargs):
        counted = [_count(holder, names) for names in (_INPUT, _OUTPUT)]
        if any(count is not None for count in counted):
            return Usage(input_tokens=counted[0], output_tokens=counted[1])
    return None


def _count(holder: Any, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if type(count := _get(holder, name)) is int), None)


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
