"""Where an exchange went, told by what it says: many recordings have their URLs and headers filtered away."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from agenttape_langchain.importers.http_exchanges import Exchange

_OPENAI, _ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
_FIRST_EVENT = re.compile(rb"^data: ?(\{.*\})", re.MULTILINE)


def addressed(exchange: Exchange) -> Exchange:
    """Return an exchange with the URL of the service that it must be of, if its own was filtered away."""
    if re.match(r"https?://", exchange.url):
        return exchange
    url = _url(exchange.json or {}, exchange.answer or _first_event(exchange.body))
    return replace(exchange, url=url) if url else exchange


def _url(request: dict[str, Any], answer: dict[str, Any]) -> str:
    said = str(answer.get("object") or answer.get("type"))
    if "messages" in request and "model" in request:
        return f"{_ANTHROPIC}/messages" if said in {"message", "message_start"} else f"{_OPENAI}/chat/completions"
    if "input" in request and "model" in request:
        return f"{_OPENAI}/embeddings" if said == "list" else f"{_OPENAI}/responses"
    return ""


def _first_event(body: bytes) -> dict[str, Any]:
    found = _FIRST_EVENT.search(body)
    try:
        event = json.loads(found[1]) if found is not None else None
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
