"""The responses of LLMs: chat responses and completions.

`{"$chat_response": {"message": {...}, "raw": {...}}}` and `{"$completion_response": {"text": "..."}}`.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse, LogProb

from agenttape_core.errors import UnreadableValueError
from agenttape_core.integration import Plain, TypeCodec
from agenttape_core.integration.codecs import (
    Nested,
    build,
    class_in,
    dump_fields,
    expect_dict,
    mark_class,
    note_set,
    read_extra,
    read_fields,
)
from agenttape_llamaindex.codec.messages import read_message, read_raw, write_message, write_raw


def _write_logprobs(rows: Any, nested: Nested) -> Plain:
    """Return the probabilities of tokens; those in another form than the framework declares are written unchanged."""
    if type(rows) is not list or not all(type(row) is list and all(map(_is_exact, row)) for row in rows):
        return {"$plain": nested(rows)}
    return [[{name: nested(item) for name, item in vars(prob).items()} for prob in row] for row in rows]


def _is_exact(prob: Any) -> bool:
    return type(prob) is LogProb and vars(prob).keys() == LogProb.model_fields.keys()


def _read_logprobs(plain: Plain, nested: Nested) -> Any:
    if type(plain) is dict and plain.keys() == {"$plain"}:
        return nested(plain["$plain"])
    if type(plain) is not list or not all(type(row) is list for row in plain):
        raise UnreadableValueError("logprobs", "expected a list of lists")
    return [[build(LogProb, read_fields(expect_dict(prob, "logprobs"), nested)) for prob in row] for row in plain]


_WRITERS = {"raw": write_raw, "additional_kwargs": write_raw, "logprobs": _write_logprobs, "message": write_message}
_READERS = {"raw": read_raw, "additional_kwargs": read_raw, "logprobs": _read_logprobs, "message": read_message}


def write_response(response: ChatResponse | CompletionResponse, nested: Nested) -> dict[str, Plain]:
    """Return the body of a response of either sort."""
    known = ChatResponse if isinstance(response, ChatResponse) else CompletionResponse
    body = note_set(response, dump_fields(response, nested, special=_WRITERS))
    return mark_class(body, type(response), known)


def read_response(known: type[Any], plain: Plain, nested: Nested) -> Any:
    """Return the response of a body. Raises `UnreadableValueError` if the body is malformed."""
    body = expect_dict(plain, known.__name__)
    return build(class_in(body, known), read_fields(body, nested, special=_READERS), read_extra(body, nested), body)


def _codec(tag: str, known: type[Any]) -> TypeCodec:
    def read(plain: Plain, nested: Nested) -> Any:
        return read_response(known, plain, nested)

    return TypeCodec(tag, lambda value: isinstance(value, known), write_response, read)


CODECS = (_codec("$chat_response", ChatResponse), _codec("$completion_response", CompletionResponse))
"""Both sorts of responses."""
