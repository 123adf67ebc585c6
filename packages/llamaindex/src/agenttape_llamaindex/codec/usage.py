"""The token counts of a response, wherever its provider puts them."""

from __future__ import annotations

from typing import Any

from agenttape_core.integration import Usage, field_of, tokens_in


def usage_of(response: Any) -> Usage | None:
    """Return the token counts of a chat response or a completion, if it has any."""
    raw = response.raw
    return tokens_in(field_of(raw, "usage"), field_of(raw, "usage_metadata"), raw, response.additional_kwargs)
