"""Outputs of models, retrievers and maps: generations, chunks of a stream, results, documents.

The two that fill a cassette have short forms. A text delta of a stream is `{"$chunk": "text"}`, any other chunk of an
`AIMessageChunk` is that message's fields: `{"$chunk": {"tool_call_chunks": [...]}}`. A result with one generation is
that generation: `{"$chat_result": {"message": {...}, "llm_output": {...}}}`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.base import TextAccessor
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
    RunInfo,
)
from langchain_core.runnables import AddableDict

from agenttape_core.errors import UnreadableValueError
from agenttape_core.integration import Plain, TypeCodec
from agenttape_core.integration.codecs import (
    CLASS,
    EXTRA,
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
from agenttape_langchain._compat import is_document
from agenttape_langchain.codec.messages import read_message, restore_message, write_message

if TYPE_CHECKING:
    from pydantic import BaseModel

_GENERATION_KEYS = ("text", "generation_info")
_MESSAGE_KEYS = ("message", *_GENERATION_KEYS)


def text_of(message: BaseMessage) -> str:
    """Return the text that a chat generation derives from its message."""
    content = message.content
    if isinstance(content, str):
        return TextAccessor(content)
    return ChatGeneration(message=message).text


def _write_chat(generation: ChatGeneration, nested: Nested) -> dict[str, Plain]:
    body = {
        "message": write_message(generation.message, nested),
        **dump_fields(generation, nested, skip=("message", "text")),
    }
    if generation.text != text_of(generation.message):
        body["text"] = nested(str(generation.text))
    return body


def _read_chat(cls: type[BaseModel], plain: dict[str, Plain], message: Any, nested: Nested) -> Any:
    fields = {"message": message}
    if len(plain) > 1 or "message" not in plain:
        fields |= {key: nested(item) for key, item in plain.items() if key not in {"message", CLASS, EXTRA}}
    if "text" not in fields:
        fields["text"] = text_of(message)
    return build(cls, fields, read_extra(plain, nested) if EXTRA in plain else None)


def _write_generation(generation: ChatGeneration, nested: Nested) -> Plain:
    return mark_class(_write_chat(generation, nested), type(generation), ChatGeneration)


def _read_generation(plain: Plain, nested: Nested) -> Any:
    body = expect_dict(plain, "$chat_generation")
    return _read_chat(class_in(body, ChatGeneration), body, read_message(body.get("message"), nested), nested)


def _write_chunk(chunk: ChatGenerationChunk, nested: Nested) -> Plain:
    body = _write_chat(chunk, nested)
    if type(chunk) is not ChatGenerationChunk or type(chunk.message) is not AIMessageChunk or CLASS in body["message"]:
        return mark_class(body, type(chunk), ChatGenerationChunk)
    message = body.pop("message")
    del message["type"]
    body = {**message, **body}
    if not body:
        return ""
    content = body.get("content")
    return content if len(body) == 1 and type(content) is str else body


def _read_chunk(plain: Plain, nested: Nested) -> Any:
    if type(plain) is str:
        message = build(AIMessageChunk, {"content": plain})
        return build(ChatGenerationChunk, {"text": TextAccessor(plain), "message": message})
    body = expect_dict(plain, "$chunk")
    if "message" in body:
        cls = class_in(body, ChatGenerationChunk)
        return _read_chat(cls, body, read_message(body["message"], nested), nested)
    own = {key: body[key] for key in _GENERATION_KEYS if key in body}
    message = restore_message(AIMessageChunk, {k: v for k, v in body.items() if k not in own}, nested)
    return _read_chat(ChatGenerationChunk, own, message, nested)


def _write_result(result: ChatResult, nested: Nested) -> Plain:
    generations = result.generations
    single = type(result) is ChatResult and len(generations) == 1 and type(generations[0]) is ChatGeneration
    body = _write_chat(generations[0], nested) if single else {"generations": nested(generations)}
    body.update(dump_fields(result, nested, skip=("generations",)))
    return mark_class(body, type(result), ChatResult)


def _read_result(plain: Plain, nested: Nested) -> Any:
    body = plain if type(plain) is dict else expect_dict(plain, "$chat_result")
    if CLASS in body or "message" not in body:
        fields = read_fields(body, nested)
        if not isinstance(fields.get("generations"), list):
            raise UnreadableValueError("$chat_result", "expected a message or a list of generations, found neither")
        return build(class_in(body, ChatResult), fields, read_extra(body, nested))
    chat, fields = body, {}
    if len(body) > 1:
        chat = {key: body[key] for key in _MESSAGE_KEYS if key in body}
        fields = read_fields({key: item for key, item in body.items() if key not in chat}, nested)
    message = read_message(body["message"], nested)
    fields["generations"] = [_read_chat(ChatGeneration, chat, message, nested)]
    return build(ChatResult, fields)


def _text_codec(tag: str, known: type[Generation]) -> TypeCodec:
    def write(generation: Generation, nested: Nested) -> Plain:
        body = dump_fields(generation, nested)
        if type(generation) is known and body.keys() == {"text"} and type(body["text"]) is str:
            return body["text"]
        return mark_class(body, type(generation), known)

    def read(plain: Plain, nested: Nested) -> Any:
        if type(plain) is str:
            return build(known, {"text": plain})
        body = expect_dict(plain, tag)
        return build(class_in(body, known), read_fields(body, nested), read_extra(body, nested))

    return TypeCodec(tag, lambda value: isinstance(value, known), write, read)


def _write_runs(runs: list[RunInfo], _: Nested) -> Plain:
    return [str(run.run_id) for run in runs]


def _read_runs(plain: Plain, _: Nested) -> list[RunInfo]:
    try:
        return [RunInfo(run_id=uuid.UUID(item)) for item in plain]
    except (TypeError, ValueError, AttributeError):
        raise UnreadableValueError("$llm_result", f"expected a list of run ids, found {plain!r}") from None


def _write_answers(result: LLMResult, nested: Nested) -> Plain:
    fields = dump_fields(result, nested, special={"run": _write_runs})
    return mark_class(note_set(result, fields), type(result), LLMResult)


def _read_answers(plain: Plain, nested: Nested) -> Any:
    body = expect_dict(plain, "$llm_result")
    fields = read_fields(body, nested, special={"run": _read_runs})
    return build(class_in(body, LLMResult), fields, read_extra(body, nested), body)


def _write_document(document: BaseModel, nested: Nested) -> Plain:
    from langchain_core.documents import Document  # most runs have none

    return mark_class(note_set(document, dump_fields(document, nested)), type(document), Document)


def _read_document(plain: Plain, nested: Nested) -> Any:
    from langchain_core.documents import Document

    body = expect_dict(plain, "$document")
    return build(class_in(body, Document), read_fields(body, nested), read_extra(body, nested), body)


CODECS: tuple[TypeCodec, ...] = (
    TypeCodec("$chunk", lambda value: isinstance(value, ChatGenerationChunk), _write_chunk, _read_chunk),
    TypeCodec("$chat_generation", lambda value: isinstance(value, ChatGeneration), _write_generation, _read_generation),
    _text_codec("$generation_chunk", GenerationChunk),
    _text_codec("$generation", Generation),
    TypeCodec("$chat_result", lambda value: isinstance(value, ChatResult), _write_result, _read_result),
    TypeCodec("$llm_result", lambda value: isinstance(value, LLMResult), _write_answers, _read_answers),
    TypeCodec("$document", is_document, _write_document, _read_document),
    TypeCodec(
        "$addable",
        lambda value: type(value) is AddableDict,
        lambda value, nested: nested(dict(value)),
        lambda plain, nested: AddableDict(nested(plain)),
    ),
)
"""The most special class first: a chat generation chunk is a chat generation, which is a generation.

`RunnableParallel` and `RunnablePassthrough.assign` stream an `AddableDict`.
"""
