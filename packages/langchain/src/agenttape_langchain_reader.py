"""The readers of LangChain's recorded streams. LangChain is not imported, so that the command line need not import it.

The chunks have the form of `agenttape_langchain.codec.outputs`: the fields of an `AIMessageChunk`, or a `message` next
to the fields of its generation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agenttape_core.readers import CallPiece, Plain, register_reader

_METADATA = ("response_metadata", "usage_metadata")


def register() -> None:
    """Register the readers."""
    register_reader("$chunk", join=_join, calls=_calls)
    # `run-` and `lc_run-`: the ids that LangChain makes of the run where a provider sends none.
    register_reader("$chat_result", local_ids=("run-", "lc_"))


def _join(bodies: Sequence[Mapping[str, Plain]]) -> Plain:
    """Return the result that LangChain makes of chunks, as far as a reader sees it."""
    message: dict[str, Any] = {"type": "ai", "content": "".join(map(_text_of, bodies)), "tool_calls": []}
    calls: dict[str, dict[str, Any]] = {}
    info: dict[str, Any] = {}
    for body in bodies:
        info |= _mapping(body.get("generation_info"))
        part = _message_in(body)
        for key in _METADATA:
            message[key] = {**message.get(key, {}), **_mapping(part.get(key))}
        if part.get("id") is not None:
            message.setdefault("id", part["id"])
        for piece in _calls(body):
            _add(calls.setdefault(piece.call, {}), piece)
    message["tool_calls"] = [{**call, "args": _parsed(call.get("args"))} for call in calls.values()]
    return {"$chat_result": {"message": message, "generation_info": info}}


def _add(call: dict[str, Any], piece: CallPiece) -> None:
    call["args"] = f"{call.get('args', '')}{piece.args or ''}"
    for key, value in (("name", piece.name), ("id", piece.id)):
        if value is not None:
            call.setdefault(key, value)


def _parsed(arguments: str | None) -> Any:
    """Return the arguments that a text spells; the text if it is not the JSON of plain data."""
    try:
        parsed = json.loads(arguments) if arguments else {}
        json.dumps(parsed, allow_nan=False)
    except (ValueError, RecursionError):
        return arguments
    return parsed


def _calls(body: Mapping[str, Plain]) -> Iterator[CallPiece]:
    part = _message_in(body)
    pieces = part.get("tool_call_chunks") or part.get("tool_calls")
    for place, piece in enumerate(pieces if isinstance(pieces, list) else []):
        if isinstance(piece, Mapping):
            args = piece.get("args")
            text = args if isinstance(args, str) or args is None else json.dumps(args, ensure_ascii=False)
            index = piece.get("index")
            yield CallPiece(str(place if index is None else index), _text(piece, "name"), _text(piece, "id"), text)


def _message_in(body: Mapping[str, Plain]) -> Mapping[str, Any]:
    message = body.get("message")
    return message if isinstance(message, Mapping) else body


def _text_of(body: Mapping[str, Plain]) -> str:
    content = _message_in(body).get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in blocks]
    return "".join(text for text in texts if isinstance(text, str))


def _text(piece: Mapping[str, Any], key: str) -> str | None:
    value = piece.get(key)
    return value if isinstance(value, str) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
