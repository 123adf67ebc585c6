"""The words of a recorded answer: what a person reads of it, whichever framework made it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agenttape_core.errors import UnreadableValueError
from agenttape_core.schema import Interaction, Outcome
from agenttape_core.schema.codecs.changes import advanced

_WHOLES = ("message", "generations", "response")
_Join = Callable[[Sequence[Mapping[str, Any]]], Any]
_TEXTS = ("content", "blocks", "text", "delta")


def answer_text(outcome: Outcome) -> str:
    """Return the text that a model answered with: of a stream, that of all chunks. Empty where there is none.

    Args:
        outcome: The outcome of an interaction of the kind `chat` or `completion`.
    """
    if outcome.status == "streamed":
        return "".join(map(_text, outcome.chunks or ()))
    return _text(outcome.value)


def tool_calls_of(outcome: Outcome) -> list[tuple[str, Any]]:
    """Return the tool calls that a model answered with, as names and arguments.

    Args:
        outcome: As for `answer_text`.
    """
    message = _message(joined(outcome))
    calls = [*mappings_in(message.get("tool_calls")), *mappings_in(message.get("blocks"))]
    named = [(call.get("name") or call.get("tool_name"), call) for call in calls]
    return [(name, call.get("args", call.get("tool_kwargs"))) for name, call in named if isinstance(name, str)]


def joined(outcome: Outcome) -> Any:
    """Return what a model answered with as one value, of a stream as if it had not been streamed.

    Args:
        outcome: As for `answer_text`. Chunks of no framework that is known here become their text.
    """
    if outcome.status != "streamed":
        return outcome.value
    pieces = [dict(chunk) if isinstance(chunk, Mapping) and len(chunk) == 1 else {} for chunk in outcome.chunks or ()]
    tags = {tag for piece in pieces for tag in piece}
    bodies = [{"content": body} if isinstance(body, str) else body for piece in pieces for body in piece.values()]
    if len(bodies) == len(pieces) > 0 and len(tags) == 1 and all(isinstance(body, Mapping) for body in bodies):
        join: _Join = _JOINS.get(tags.pop(), _text_of_all)
        try:
            return join(bodies)
        except UnreadableValueError:
            return answer_text(outcome)
    return answer_text(outcome)


def last_answer(interactions: Iterable[Interaction]) -> str:
    """Return the text of the last answer of a model; empty if there is none.

    Args:
        interactions: Those of a run, in its order. What an interaction executed inside itself is not an answer to the
            run.
    """
    answers = [item for item in interactions if item.kind in {"chat", "completion"} and item.parent is None]
    return answer_text(answers[-1].outcome) if answers else ""


def _message(value: Any) -> Mapping[str, Any]:
    while isinstance(value, Mapping):
        inner = value.get("message") or (next(iter(value.values())) if len(value) == 1 else None)
        if not isinstance(inner, Mapping):
            return value
        value = inner
    return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def mappings_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; nothing of what is none."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_text, value))
    if not isinstance(value, Mapping):
        return ""
    if len(value) == 1 and next(iter(value)).startswith("$"):  # a value of a framework, under the name of its codec
        return _text(next(iter(value.values())))
    for key in (*_WHOLES, *_TEXTS):
        if key in value and str(value.get("type")) not in {"tool_call", "tool_use", "reasoning", "thinking"}:
            return _text(value[key])
    return ""


def _joined_messages(bodies: Sequence[Mapping[str, Any]]) -> Any:
    """Return the result that LangChain makes of chunks of a message."""
    message: dict[str, Any] = {"type": "ai", "content": "".join(map(_text, bodies)), "tool_calls": []}
    calls: dict[str, dict[str, Any]] = {}
    told: dict[str, Any] = {}
    for body in bodies:
        told |= _mapping(body.get("generation_info"))
        part = body["message"] if isinstance(body.get("message"), Mapping) else body
        for key in ("response_metadata", "usage_metadata"):
            message[key] = {**message.get(key, {}), **_mapping(part.get(key))}
        if part.get("id") is not None:
            message.setdefault("id", part["id"])
        for piece in mappings_in(part.get("tool_call_chunks")):
            _add_piece(calls.setdefault(str(piece.get("index", len(calls))), {}), piece)
    message["tool_calls"] = [{**call, "args": _read(call.get("args"))} for call in calls.values()]
    return {"$chat_result": {"message": message, "generation_info": told}}


def _add_piece(call: dict[str, Any], piece: Mapping[str, Any]) -> None:
    call["args"] = f"{call.get('args', '')}{piece.get('args') or ''}"
    for key in ("name", "id"):
        if piece.get(key) is not None:
            call.setdefault(key, piece[key])


def _read(arguments: Any) -> Any:
    """Return the arguments that a text spells; the text, if they are no plain data."""
    try:
        read = json.loads(arguments) if arguments else {}
        json.dumps(read, allow_nan=False)
    except (ValueError, RecursionError):
        return arguments
    return read


def _joined_chats(bodies: Sequence[Mapping[str, Any]]) -> Any:
    said: dict[str, Any] = {"message": {"role": "assistant"}}
    for body in bodies:
        said = advanced(said, dict(body), ("message", "content"))
    return {"$chat_response": said}


def _joined_texts(bodies: Sequence[Mapping[str, Any]]) -> Any:
    said: dict[str, Any] = {}
    for body in bodies:
        said = advanced(said, dict(body), ("text",))
    return {"$completion_response": said}


def _text_of_all(bodies: Sequence[Mapping[str, Any]]) -> str:
    return "".join(map(_text, bodies))


_JOINS: dict[str, _Join] = {
    "$chunk": _joined_messages,
    "$chat_chunk": _joined_chats,
    "$text_chunk": _joined_texts,
}
"""How the chunks of a framework become one value, by their tags."""
