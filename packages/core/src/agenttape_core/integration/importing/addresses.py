"""Addresses of services of models: which kind of call an exchange is, by the path of its request or by its bodies."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from agenttape_core.integration.importing.http_exchanges import Exchange

_OPENAI, _ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
_CHATS = re.compile(r"(/chat/completions|/responses|/v1/messages)$")
_COMPLETIONS = re.compile(r"(?<!/chat)/completions$")
_FIRST_EVENT = re.compile(rb"^data: ?(\{.*\})", re.MULTILINE)


def kind_of(exchange: Exchange) -> str:
    """Return the kind of call that an exchange is: `chat`, `completion`, `embeddings`, or `http` of another service."""
    if exchange.method == "POST" and _CHATS.search(exchange.path):
        return "chat"
    if exchange.method == "POST" and _COMPLETIONS.search(exchange.path):
        return "completion"
    return "embeddings" if exchange.method == "POST" and exchange.path.endswith("/embeddings") else "http"


def addressed(exchange: Exchange) -> Exchange:
    """Return an exchange with a URL: its own, or the URL of the service whose form its bodies have.

    Many recordings have their URLs and headers filtered away.
    """
    if re.match(r"https?://", exchange.url):
        return exchange
    url = _url(exchange.json or {}, exchange.answer or _first_event(exchange.body))
    return replace(exchange, url=url) if url else exchange


def _url(request: dict[str, Any], answer: dict[str, Any]) -> str:
    form = str(answer.get("object") or answer.get("type"))
    if "messages" in request and "model" in request:
        return f"{_ANTHROPIC}/messages" if form in {"message", "message_start"} else f"{_OPENAI}/chat/completions"
    if "input" in request and "model" in request:
        return f"{_OPENAI}/embeddings" if form == "list" else f"{_OPENAI}/responses"
    return ""


def _first_event(body: bytes) -> dict[str, Any]:
    found = _FIRST_EVENT.search(body)
    try:
        event = json.loads(found[1]) if found is not None else None
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
