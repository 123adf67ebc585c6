"""The readers of LlamaIndex's recorded streams for tools. It imports no LlamaIndex, so that the command line need not.

A chunk is the difference of a response from the one before, as `agenttape_llamaindex.codec.streams` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from agenttape_core.integration import CallPiece, Plain, register_reader
from agenttape_core.integration.codecs import advanced

_TOOL_CALLS = ("changes", "message", "$in", "tool_calls", "$items")


def register() -> None:
    """Register the readers."""
    chat = partial(_join, "$chat_response", {"message": {"role": "assistant"}}, ("message", "content"))
    register_reader("$chat_chunk", join=chat, calls=_calls)
    register_reader("$text_chunk", join=partial(_join, "$completion_response", {}, ("text",)))


def _join(tag: str, start: Mapping[str, Plain], text: tuple[str, ...], bodies: Sequence[Mapping[str, Plain]]) -> Plain:
    """Return the response that a stream amounts to.

    Args:
        tag: The tag of such a response.
        start: The response before the first chunk.
        text: The path of the text that `content` grows.
        bodies: The chunks.
    """
    response = dict(start)
    for body in bodies:
        response = advanced(response, dict(body), text)
    return {tag: response}


def _calls(body: Mapping[str, Plain]) -> Iterator[CallPiece]:
    for key, change in _within(body, _TOOL_CALLS).items():
        new = _within(change, ("$in",)) or _within(change, ("$to",))
        args = new.get("args")
        if isinstance(args, Mapping):
            args = args.get("$to", args)
        text = args if isinstance(args, str) or args is None else json.dumps(args, ensure_ascii=False)
        yield CallPiece(key.removeprefix("#"), _text(new, "name"), _text(new, "id"), text)


def _text(change: Mapping[str, Any], key: str) -> str | None:
    value = change.get(key)
    return value if isinstance(value, str) else None


def _within(value: Any, path: Sequence[str]) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
