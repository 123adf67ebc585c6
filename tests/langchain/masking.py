"""Compare runs inside a session with runs outside of it, whose ids are random."""

from __future__ import annotations

import re
from typing import Any

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_TIMESTAMP = re.compile(r"(?<='timestamp': )\d{13}\b")


def masked(value: Any) -> str:
    """All of a value as text: random ids numbered by their first appearance, without addresses in memory and times."""
    seen: dict[str, str] = {}
    text = _ID.sub(lambda match: seen.setdefault(match[0], f"<id {len(seen)}>"), repr(value))
    return _TIMESTAMP.sub("<time>", _ADDRESS.sub("<address>", text))
