"""The Chat Completions wire format: replies as completions, as streamed chunks and as errors.

The shapes follow OpenAI's API reference for `chat.completion`, `chat.completion.chunk`, `list` (models,
embeddings) and the error object.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from zlib import crc32

from . import media

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .policy import JSON, Reply

WORDS_PER_DELTA = 3
ARGUMENT_CHARACTERS_PER_DELTA = 8
REASONING_TOKENS = {"minimal": 0, "low": 64, "medium": 256, "high": 1024}
"""The tokens that the pretended model spends on reasoning, by `reasoning_effort`."""
ERROR_CODES = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "unknown_url"),
    429: ("requests", "rate_limit_exceeded"),
}


def limited(reply: Reply, body: JSON) -> Reply:
    """Cut a text at the first stop sequence and at the token limit (a word counts as a token)."""
    stops = body.get("stop") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        reply = replace(reply, text=reply.text.split(stop)[0])
    words = reply.text.split(" ")
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or len(words)
    if len(words) > limit:
        reply = replace(reply, text=" ".join(words[:limit]), finish_reason="length")
    return reply


def completion(body: JSON, replies: list[Reply]) -> JSON:
    """A whole `chat.completion`, one choice per reply."""
    choices = [
        {
            "index": i,
            "message": _message(reply) | (media.spoken(reply.text) if media.is_to_speak(body) else {}),
            "logprobs": _logprobs(body, reply.text),
            "finish_reason": _reason(reply),
        }
        for i, reply in enumerate(replies)
    ]
    return _head(body, "chat.completion") | {"choices": choices, "usage": usage(body, replies)}


def chunks(body: JSON, replies: list[Reply]) -> Iterator[JSON]:
    """The `chat.completion.chunk` objects of a stream: role, contents, tool calls, reason, usage."""
    head = _head(body, "chat.completion.chunk")
    with_usage = (body.get("stream_options") or {}).get("include_usage", False)
    null_usage = {"usage": None} if with_usage else {}
    for i, reply in enumerate(replies):
        for delta, reason in _deltas(reply):
            logprobs = _logprobs(body, delta.get("content") or "")
            choice = {"index": i, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
            yield head | {"choices": [choice]} | null_usage
    if with_usage:
        yield head | {"choices": [], "usage": usage(body, replies)}


def usage(body: JSON, replies: list[Reply]) -> JSON:
    """Token counts: four characters of the request, or one word of the answer, count as one token."""
    asked = len(json.dumps(body.get("messages") or body.get("input"))) // 4
    said = sum(len(r.text.split()) + len(json.dumps(r.tool_calls)) // 4 for r in replies)
    spoken = said if media.is_to_speak(body) else 0
    thought = REASONING_TOKENS.get(body.get("reasoning_effort") or "", 0)
    answered = said + spoken + thought
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": media.heard(body) // 4},
        "completion_tokens_details": {"reasoning_tokens": thought, "audio_tokens": spoken},
    }


def error(status: int, message: str) -> JSON:
    """An error object as OpenAI's API sends it with an HTTP status of 400 or more."""
    kind, code = ERROR_CODES.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def models() -> JSON:
    """The list of models."""
    names = ("gpt-5-mini", "text-embedding-3-small")
    listed = [{"id": name, "object": "model", "created": 1754425777, "owned_by": "system"} for name in names]
    return {"object": "list", "data": listed}


def embeddings(body: JSON, number: int) -> JSON:
    """Unit vectors, one per input, as floats or in base64.

    They differ from request to request, or follow from the input alone if the number is 0.
    """
    inputs = body["input"]
    # A list of integers is one text in tokens, everything else in a list is a text of its own.
    texts = inputs if isinstance(inputs, list) and not isinstance(inputs[0], int) else [inputs]
    size = body.get("dimensions") or 8
    phases = [number + i / 7 if number else _phase(text) for i, text in enumerate(texts)]
    data = [{"object": "embedding", "index": i, "embedding": _vector(size, p, body)} for i, p in enumerate(phases)]
    spent = {key: usage(body, [])[key] for key in ("prompt_tokens", "total_tokens")}
    return {"object": "list", "data": data, "model": body["model"], "usage": spent}


def _phase(text: Any) -> float:
    """A number below 2 pi that follows from a text."""
    return crc32(json.dumps(text).encode()) % 6283 / 1000


def _vector(size: int, phase: float, body: JSON) -> list[float] | str:
    raw = [math.sin(phase * (i + 1)) for i in range(size)]
    length = math.hypot(*raw) or 1.0
    vector = [x / length for x in raw]
    if body.get("encoding_format") != "base64":
        return vector
    return base64.b64encode(struct.pack(f"<{size}f", *vector)).decode()


def _head(body: JSON, kind: str) -> JSON:
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _message(reply: Reply) -> JSON:
    message: JSON = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal}
    if reply.tool_calls:
        message["tool_calls"] = [_call(name, _as_text(arguments)) for name, arguments in reply.tool_calls]
    return message


def _deltas(reply: Reply) -> Iterator[tuple[JSON, str | None]]:
    yield {"role": "assistant", "content": None if reply.tool_calls else "", "refusal": None}, None
    if reply.refusal:
        yield {"refusal": reply.refusal}, None
    for part in _parts(reply.text):
        yield {"content": part}, None
    for index, (name, arguments) in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index} | _call(name, "")]}, None
        text = _as_text(arguments)
        for start in range(0, len(text), ARGUMENT_CHARACTERS_PER_DELTA):
            fragment = text[start : start + ARGUMENT_CHARACTERS_PER_DELTA]
            yield {"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}, None
    yield {}, _reason(reply)


def _logprobs(body: JSON, text: str) -> JSON | None:
    """The probability of each word of a text, where the request asks for it."""
    if not body.get("logprobs") or not text:
        return None
    words = [word for word in re.split(r"(?= )", text) if word]
    tokens = [{"token": w, "logprob": -len(w) / 16, "bytes": list(w.encode()), "top_logprobs": []} for w in words]
    return {"content": tokens, "refusal": None}


def _parts(text: str) -> Iterator[str]:
    """A text in pieces of a few words that join to the text itself."""
    words = text.split(" ")
    for start in range(0, len(words) if text else 0, WORDS_PER_DELTA):
        yield (" " if start else "") + " ".join(words[start : start + WORDS_PER_DELTA])


def _call(name: str, arguments: str) -> JSON:
    return {
        "id": f"call_{uuid4().hex[:24]}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
