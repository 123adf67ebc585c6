"""OpenAI's client and HTTP as `agenttape` 0.1 recorded them, as exchanges."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from agenttape_core.integration.importing.http_exchanges import Exchange, Headers
from agenttape_core.integration.importing.request_parts import NotImportableError

PLACEHOLDER = "***REDACTED***"
"""Written by 0.1 instead of secrets."""
REDACTED = f"agenttape 0.1 wrote {PLACEHOLDER} over parts of it, which are lost"

_LONGEST = 1e12
"""A longer duration, in milliseconds, is not to be believed."""

_PATHS = {"chat.completions": "/v1/chat/completions", "responses": "/v1/responses", "embeddings": "/v1/embeddings"}
_NO_BODY = "agenttape 0.1 kept no answer: it recorded the raw response that LangChain's client uses without its body"
_PROMPTS = "it is from a callback, which gave agenttape 0.1 the messages as one text, and no other part of the request"
_STATE = (
    "agenttape 0.1 kept the input and the last state of a graph, but no call inside it; a replay runs the graph itself"
)
_MEMORY = "it is a function that was decorated as memory, which no framework calls"


def exchange_of(plain: Mapping[str, Any]) -> Exchange:
    """Return an interaction of the kind `llm` or `http` as an exchange.

    Raises:
        NotImportableError: If it is none, or holds no answer.
    """
    kind, request = plain["kind"], plain["request"]
    if kind == "llm":
        if str(request.get("endpoint")) not in _PATHS:
            raise NotImportableError(_PROMPTS if "prompts" in request else "its endpoint is unknown")
        return _of_client(plain, request)
    if kind == "http":
        return _of_http(plain, request)
    raise NotImportableError(_STATE if plain.get("boundary") == "graph_state" else _MEMORY)


def latency_of(plain: Mapping[str, Any]) -> float:
    """Return the duration of an interaction in milliseconds; 0 if it is not recorded."""
    latency = plain.get("latency_ms")
    return float(latency) if isinstance(latency, int | float) and 0 <= latency < _LONGEST else 0.0


def _of_client(plain: Mapping[str, Any], request: Mapping[str, Any]) -> Exchange:
    status, headers, answer = _outcome(plain)
    body = {key: value for key, value in request.items() if key != "endpoint"}
    redacted = PLACEHOLDER in _json([body, answer]).decode()
    return Exchange(
        place=plain["place"],
        method="POST",
        url="https://api.openai.com" + _PATHS[request["endpoint"]],
        request_headers=(),
        request_body=_json(body),
        status=status,
        headers=headers,
        body=_json(answer),
        duration_ms=latency_of(plain),
        doubt=REDACTED if redacted else "",
    )


def _outcome(plain: Mapping[str, Any]) -> tuple[int, Headers, Any]:
    error, answer = plain.get("error"), plain.get("response")
    as_json = (("content-type", "application/json"),)
    if isinstance(error, dict):
        response = error.get("response") or {}
        status = response.get("status_code") if isinstance(response, dict) else None
        if type(status) is not int:
            raise NotImportableError(f"it failed without an answer: {str(error.get('type'))[:80]}")
        return status, _pairs(response.get("headers")) or as_json, {"error": error.get("body")}
    if not isinstance(answer, dict) or "http_response" in answer:
        raise NotImportableError(_NO_BODY)
    return 200, as_json, answer


def _of_http(plain: Mapping[str, Any], request: Mapping[str, Any]) -> Exchange:
    response = plain.get("response")
    if not isinstance(response, dict) or type(response.get("status_code")) is not int:
        raise NotImportableError("it failed without an answer")
    if not isinstance(request.get("url"), str):
        raise NotImportableError("its request has no URL")
    sent, answered = _body(request), _body(response)
    redacted = PLACEHOLDER.encode() in sent + answered
    return Exchange(
        place=plain["place"],
        method=str(request.get("method")).upper(),
        url=request["url"],
        request_headers=_pairs(request.get("headers")),
        request_body=sent,
        status=response["status_code"],
        headers=_pairs(response.get("headers")),
        body=answered,
        duration_ms=latency_of(plain),
        doubt=REDACTED if redacted else "",
    )


def _pairs(headers: Any) -> Headers:
    if not isinstance(headers, dict):
        return ()
    listed = ((str(name).lower(), value if isinstance(value, list) else [value]) for name, value in headers.items())
    return tuple((name, str(value)) for name, values in listed for value in values)


def _body(side: Mapping[str, Any]) -> bytes:
    """Return a body: its bytes if they were kept, or else made of the data that it was parsed into."""
    for key in ("raw_b64", "body_b64"):
        if key in side:
            return from_base64(side[key], "its body")
    if "json" in side:
        return _json(side["json"])
    if isinstance(side.get("form"), dict):
        return urlencode(side["form"], doseq=True).encode()
    text = side.get("text", side.get("content", ""))
    return text if isinstance(text, bytes) else str(text).encode()


def from_base64(text: Any, what: str) -> bytes:
    """Return the bytes that a text holds.

    Raises:
        NotImportableError: If it isn't base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise NotImportableError(f"{what} is not base64") from None


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        raise NotImportableError(f"it holds a value that isn't JSON: {error}") from None
