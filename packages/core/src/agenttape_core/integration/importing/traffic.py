"""Recorded traffic as a cassette: each exchange goes to the importer of its service, and is graded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from agenttape_core.integration.importing.framework import Framework
from agenttape_core.integration.importing.http_exchanges import Exchange
from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.lifecycle.imported import Graded, Importing

_RESULTS = (b'"tool_call_id"', b'"tool_use_id"', b'_call_output"')
_FAILED = 400  # the first status that is an error (RFC 9110 §15)


class Traffic:
    """Imports exchanges one after the other.

    Args:
        importing: The cassette.
        framework: Makes calls of them.
    """

    def __init__(self, importing: Importing, framework: Framework) -> None:
        self._importing = importing
        self._framework = framework

    def take(self, exchange: Exchange, retried_in: str = "") -> Graded:
        """Record an exchange, if possible, and grade it.

        `retried_in` is the place of the exchange in which the client itself tried again: the program got the outcome of
        that one, and never knew of this.
        """
        exchange = _addressed(exchange)
        if retried_in:
            reason = f"the client itself tried again: {retried_in} holds what the program got"
            return Graded(exchange.place, exchange.what, "exact", reason)
        try:
            loss = self._record(exchange)
        except NotImportableError as error:
            self._importing.missing(_kind_of(exchange), f"{exchange.what}: {error}")
            return Graded(exchange.place, exchange.what, "missing", str(error))
        return Graded(exchange.place, exchange.what, "lossy" if loss else "exact", loss)

    def _record(self, exchange: Exchange) -> str:
        kind = _kind_of(exchange)
        if kind == "chat":
            return self._framework.chat(self._importing, exchange)
        if kind == "completion":
            return self._framework.completion(self._importing, exchange)
        if kind == "embeddings":
            return self._framework.embedding(self._importing, exchange)
        raise NotImportableError(
            f"it isn't a chat or embedding of a known service: nothing in {self._framework.name} makes such a request"
        )


def graded(traffic: Traffic, exchanges: Sequence[Exchange]) -> Iterator[Graded]:
    """Record exchanges in their order, and yield the grade of each."""
    taken: set[int] = set()
    for number, exchange in enumerate(exchanges):
        yield traffic.take(exchange, _retried_in(exchanges, number, taken))


def ignored_paths(exchanges: Sequence[Exchange]) -> tuple[str, ...]:
    """Return the request paths to ignore: of the results of tools, their names and whether they are errors."""
    sends_results = any(mark in exchange.request_body for exchange in exchanges for mark in _RESULTS)
    return ("messages[*].name", "messages[*].status") if sends_results else ()


def _retried_in(exchanges: Sequence[Exchange], number: int, taken: set[int]) -> str:
    """Return the place of the exchange in which the client itself sent a failed request again; empty if it did not."""
    failed = exchanges[number]
    if failed.status < _FAILED:
        return ""
    for later in range(number + 1, len(exchanges)):
        again = exchanges[later]
        same = (again.url, again.request_body) == (failed.url, failed.request_body)
        if same and again.retries == failed.retries + 1 and later not in taken:
            taken.add(later)
            return again.place
    return ""


# Addresses of services of models: which kind of call an exchange is, by the path of its request or by its bodies.

_OPENAI, _ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
_CHATS = re.compile(r"(/chat/completions|/responses|/v1/messages)$")
_COMPLETIONS = re.compile(r"(?<!/chat)/completions$")
_FIRST_EVENT = re.compile(rb"^data: ?(\{.*\})", re.MULTILINE)


def _kind_of(exchange: Exchange) -> str:
    """Return the kind of call that an exchange is: `chat`, `completion`, `embeddings`, or `http` of another service."""
    if exchange.method == "POST" and _CHATS.search(exchange.path):
        return "chat"
    if exchange.method == "POST" and _COMPLETIONS.search(exchange.path):
        return "completion"
    return "embeddings" if exchange.method == "POST" and exchange.path.endswith("/embeddings") else "http"


def _addressed(exchange: Exchange) -> Exchange:
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
