"""Recorded answers in the bytes of OpenAI and Anthropic, whole or as server-sent events.

https://platform.openai.com/docs/api-reference (chat, responses, embeddings), https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Interaction, RecordedError
from agenttape_core.tools.reading.messages import Answer, joined, pieces_of

_STATUS = {
    "BadRequestError": 400,
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "ConflictError": 409,
    "RequestTooLargeError": 413,
    "UnprocessableEntityError": 422,
    "RateLimitError": 429,
    "InternalServerError": 500,
    "ServiceUnavailableError": 503,
    "APITimeoutError": 504,
    "OverloadedError": 529,
}
"""The statuses of the errors of SDKs, by the ends of their names."""
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_FROM_ANTHROPIC = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
                   "refusal": "content_filter", "pause_turn": "stop"}  # fmt: skip
_OPENAI_REASONS = {**_FROM_ANTHROPIC, "completed": "stop", "incomplete": "length", "STOP": "stop",
                   "MAX_TOKENS": "length", "SAFETY": "content_filter"}  # fmt: skip
_ANTHROPIC_REASONS = {"tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


class Said(NamedTuple):
    """An answer, whatever it was recorded from."""

    id: str
    model: str
    text: str
    pieces: list[str]  # its text as it was streamed
    calls: list[tuple[str, str, str]]  # the id, the name and the arguments of each tool call, these as JSON
    reason: str  # why it ended, in its provider's words; empty if that isn't known
    input_tokens: int
    output_tokens: int
    cached_tokens: int  # of the input tokens, those that were read from the prompt cache
    written_tokens: int  # of these, those that were written into it


def said_in(call: Interaction, model: str, streamed: Sequence[str] = ()) -> Said:
    """Return the answer of a call to a model that a request names; `streamed` are the texts of its stream over HTTP."""
    outcome, answer = call.outcome, Answer(call.outcome)
    parts = [part for message in answer.messages for part in message["parts"] if part["type"] == "tool_call"]
    calls = [
        (str(part.get("id") or f"call_{call.number}_{at}"), part["name"], _arguments(part["arguments"]))
        for at, part in enumerate(parts)
        if part["name"]
    ]
    pieces = [piece for chunk in outcome.chunks or () for piece in pieces_of(chunk) if isinstance(piece, str)]
    pieces = pieces or list(streamed)
    usage = outcome.usage
    return Said(
        answer.id or f"recorded-{call.number}",
        model or answer.model or "",
        answer.text,
        pieces if "".join(pieces) == answer.text else [answer.text] if answer.text else [],
        calls,
        next(iter(answer.finish_reasons), ""),
        ((usage.input_tokens or 0) if usage is not None else 0) + answer.tokens_apart,
        (usage.output_tokens or 0) if usage is not None else 0,
        answer.tokens.get("cache_read.input_tokens", 0),
        answer.tokens.get("cache_creation.input_tokens", 0),
    )


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given if given is not None else {}, ensure_ascii=False)


def status_of(error: RecordedError) -> int | None:
    """Return the HTTP status of a recorded error; `None` if there was no response."""
    name = error.type.rpartition(":")[2].rpartition(".")[2]
    given = error.attributes.get("status_code")
    if type(given) is int and 400 <= given < 600:  # noqa: PLR2004 - errors
        return given
    if name.endswith(("ConnectionError", "ConnectError", "ReadError")):
        return None
    return next((status for end, status in _STATUS.items() if name.endswith(end)), 500)


def problem(provider: str, status: int, message: str) -> dict[str, Any]:
    """Return the body of an error in a provider's form."""
    kind = _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004 - of the server
    if provider == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def said_wrong(body: str) -> str:
    """Return the message in the body of an error of any provider; the body if it has none."""
    try:
        error = json.loads(body)["error"]
        return str(error["message"] if isinstance(error, Mapping) else error)
    except (ValueError, LookupError, TypeError):
        return body


def event(data: Any, name: str = "") -> str:
    """Return a server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


# -- OpenAI: chat completions.


def chat_completion(said: Said) -> dict[str, Any]:
    """Return an answer as a chat completion."""
    message = {"role": "assistant", "content": said.text or None, "refusal": None}
    calls = [_openai_call(*call) for call in said.calls]
    choice = {"index": 0, "message": {**message, **({"tool_calls": calls} if calls else {})},
              "logprobs": None, "finish_reason": _openai_reason(said)}  # fmt: skip
    return {**_completion(said, "chat.completion"), "choices": [choice], "usage": _openai_usage(said)}


def chat_completion_events(said: Said, *, with_usage: bool) -> Iterator[str]:
    """Yield an answer as the events of a chat completion."""
    head = _completion(said, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> str:
        return event({**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for piece in said.pieces:
        yield chunk({"content": piece})
    for at, call in enumerate(said.calls):
        yield chunk({"tool_calls": [{"index": at, **_openai_call(*call)}]})
    yield chunk({}, _openai_reason(said))
    if with_usage:
        yield event({**head, "choices": [], "usage": _openai_usage(said)})
    yield event("[DONE]")


def _completion(said: Said, kind: str) -> dict[str, Any]:
    return {"id": said.id, "object": kind, "created": 0, "model": said.model, "system_fingerprint": None}


def _openai_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _openai_reason(said: Said) -> str:
    if said.calls:
        return "tool_calls"
    return _OPENAI_REASONS.get(said.reason, said.reason or "stop")


def _openai_usage(said: Said) -> dict[str, Any]:
    return {
        "prompt_tokens": said.input_tokens,
        "completion_tokens": said.output_tokens,
        "total_tokens": said.input_tokens + said.output_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
    }


# -- OpenAI: responses, embeddings.


def response(said: Said, status: str = "completed") -> dict[str, Any]:
    """Return an answer as a response."""
    output: list[dict[str, Any]] = []
    if said.text or not said.calls:
        content = {"type": "output_text", "text": said.text, "annotations": []}
        output.append({"id": f"msg_{said.id}", "type": "message", "status": status, "role": "assistant",
                       "content": [content]})  # fmt: skip
    for call_id, name, arguments in said.calls:
        output.append({"id": f"fc_{call_id}", "type": "function_call", "status": status, "call_id": call_id,
                       "name": name, "arguments": arguments})  # fmt: skip
    usage = {
        "input_tokens": said.input_tokens,
        "input_tokens_details": {"cached_tokens": said.cached_tokens},
        "output_tokens": said.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": said.input_tokens + said.output_tokens,
    }
    is_cut = status == "completed" and _openai_reason(said) == "length"
    return {
        "id": said.id,
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if is_cut else status,
        "model": said.model,
        "output": output if status == "completed" else [],
        "usage": usage if status == "completed" else None,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": None,
        "metadata": {},
        "tools": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "temperature": None,
        "top_p": None,
    }


def response_events(said: Said) -> Iterator[str]:
    """Yield an answer as the events of a response."""
    numbers = iter(range(1_000_000))

    def each(kind: str, **data: Any) -> str:
        return event({"type": kind, "sequence_number": next(numbers), **data}, kind)

    whole = response(said)
    yield each("response.created", response=response(said, "in_progress"))
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        if item["type"] == "message":
            part = item["content"][0]
            begun = {**item, "status": "in_progress", "content": []}
            yield each("response.output_item.added", output_index=at, item=begun)
            yield each("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
            for piece in said.pieces:
                yield each("response.output_text.delta", **place, content_index=0, delta=piece, logprobs=[])
            yield each("response.output_text.done", **place, content_index=0, text=said.text, logprobs=[])
            yield each("response.content_part.done", **place, content_index=0, part=part)
        else:
            begun = {**item, "status": "in_progress", "arguments": ""}
            yield each("response.output_item.added", output_index=at, item=begun)
            yield each("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield each("response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"])
        yield each("response.output_item.done", output_index=at, item=item)
    yield each(f"response.{whole['status']}", response=whole)


def embeddings(call: Interaction, model: str, *, as_base64: bool = False) -> dict[str, Any]:
    """Return recorded vectors as OpenAI does: lists of numbers, or their bytes, which some SDKs request."""
    value = joined(call.outcome)
    vectors = [each.get("embedding", each.get("values")) if isinstance(each, Mapping) else each
               for each in _vectors(value)]  # fmt: skip
    vectors = [_packed(vector) if as_base64 else _unpacked(vector) for vector in vectors]
    tokens = (call.outcome.usage.input_tokens or 0) if call.outcome.usage is not None else 0
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _packed(vector: Any) -> Any:
    return base64.b64encode(array("f", vector).tobytes()).decode() if isinstance(vector, list) else vector


def _unpacked(vector: Any) -> Any:
    return array("f", base64.b64decode(vector)).tolist() if isinstance(vector, str) else vector


def _vectors(value: Any) -> list[Any]:
    """Return the vectors of an answer: one for each text, or that of a single text."""
    rows = value if isinstance(value, list) else []
    return [rows] if rows and isinstance(rows[0], int | float) else rows


# -- Anthropic: messages.


def message(said: Said) -> dict[str, Any]:
    """Return an answer as a message of Anthropic."""
    blocks = [_block(block) for block in _blocks(said)]
    end = {"stop_reason": _anthropic_reason(said), "usage": _anthropic_usage(said)}
    return {**_message(said), "content": blocks, **end}


def message_events(said: Said) -> Iterator[str]:
    """Yield an answer as the events of a message of Anthropic."""
    start = {
        **_message(said),
        "content": [],
        "stop_reason": None,
        "usage": {**_anthropic_usage(said), "output_tokens": 0},
    }
    yield _named("message_start", message=start)
    for at, (kind, call) in enumerate(_blocks(said)):
        block = _block((kind, call))
        empty = {**block, "text": ""} if kind == "text" else {**block, "input": {}}
        yield _named("content_block_start", index=at, content_block=empty)
        deltas: Iterable[dict[str, Any]] = (
            ({"type": "text_delta", "text": piece} for piece in said.pieces)
            if kind == "text"
            else [{"type": "input_json_delta", "partial_json": call[2]}]
        )
        for delta in deltas:
            yield _named("content_block_delta", index=at, delta=delta)
        yield _named("content_block_stop", index=at)
    end = {"stop_reason": _anthropic_reason(said), "stop_sequence": None}
    yield _named("message_delta", delta=end, usage={"output_tokens": said.output_tokens})
    yield _named("message_stop")


def _named(kind: str, **data: Any) -> str:
    return event({"type": kind, **data}, kind)


def _message(said: Said) -> dict[str, Any]:
    head = {"id": said.id, "type": "message", "role": "assistant", "model": said.model}
    return {**head, "stop_sequence": None}


def _blocks(said: Said) -> Iterator[tuple[str, tuple[str, str, str]]]:
    if said.text or not said.calls:
        yield "text", ("", "", said.text)
    for call in said.calls:
        yield "tool_use", call


def _block(block: tuple[str, tuple[str, str, str]]) -> dict[str, Any]:
    kind, (call_id, name, text) = block
    if kind == "text":
        return {"type": "text", "text": text, "citations": None}
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = {}
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _anthropic_reason(said: Said) -> str:
    if said.reason in _FROM_ANTHROPIC and not said.calls:
        return said.reason
    return _ANTHROPIC_REASONS.get(_openai_reason(said), "end_turn")


def _anthropic_usage(said: Said) -> dict[str, Any]:
    return {
        "input_tokens": max(0, said.input_tokens - said.cached_tokens - said.written_tokens),
        "output_tokens": said.output_tokens,
        "cache_read_input_tokens": said.cached_tokens,
        "cache_creation_input_tokens": said.written_tokens,
    }
