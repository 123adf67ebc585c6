"""Streams as results and back, because LangChain may want either on replay.

A plain `invoke` below a streaming callback calls a model's `_stream`, and the same `invoke` without one its
`_generate`. Both must be replayed from either recording.
"""

from __future__ import annotations

import functools
import json
import operator
from typing import Any

from langchain_core import messages as lc
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, BaseMessageChunk, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, GenerationChunk, LLMResult

_CHUNK_OF: tuple[tuple[type[BaseMessage], type[BaseMessageChunk]], ...] = (
    (lc.HumanMessage, lc.HumanMessageChunk),
    (lc.SystemMessage, lc.SystemMessageChunk),
    (lc.ToolMessage, lc.ToolMessageChunk),
    (lc.ChatMessage, lc.ChatMessageChunk),
    (lc.FunctionMessage, lc.FunctionMessageChunk),
)


def join_chunks(chunks: list[ChatGenerationChunk]) -> ChatResult:
    """Return the result that LangChain makes of a stream.

    The chunks are not changed, but the result shares nested values with them. Raises `ValueError` if there are no
    chunks, as LangChain does for a model with an empty stream.
    """
    if not chunks or isinstance(chunks[0].message, AIMessageChunk):
        return generate_from_stream(iter(chunks))
    # LangChain adds a list of other chunks by a constructor call that lacks their role, name or tool call id.
    whole = functools.reduce(operator.add, chunks)
    message = message_chunk_to_message(whole.message)
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=whole.generation_info)])


def split_result(result: ChatResult) -> list[ChatGenerationChunk]:
    """Return a stream of one chunk that holds the first generation of a result.

    `join_chunks(split_result(result))` equals `result`, except for what LangChain's own merging of chunks drops:

    - `llm_output`, and every generation but the first;
    - of a message: its `name` (AI messages), undeclared extra fields, and the type of a user's subclass;
    - an empty `generation_info` and an empty `id`, which become None;
    - of a tool call: keys other than name, args, id and type, and arguments that are not JSON (they become text);
    - of an invalid tool call: its `error`; and if its arguments are the beginning of a JSON object, or empty, it
      becomes a valid call; valid calls that are in `additional_kwargs` only are found there again;
    - with `output_version` v1: text arguments of server tool calls inside the content (they are parsed).

    Raises `ValueError` if the result has no generation.
    """
    if not result.generations:
        raise ValueError("expected a result with at least one generation, found none")
    generation = result.generations[0]
    return [ChatGenerationChunk(message=_chunk_of(generation.message), generation_info=generation.generation_info)]


def _chunk_of(message: BaseMessage) -> BaseMessageChunk:
    fields = {name: value for name, value in message.__dict__.items() if name != "type"}
    if isinstance(message, AIMessage):
        fields |= {"tool_call_chunks": _tool_call_chunks(message), "chunk_position": "last"}
        return AIMessageChunk(**fields)
    for cls, chunk_cls in _CHUNK_OF:
        if isinstance(message, cls):
            return chunk_cls(**{name: value for name, value in fields.items() if name in chunk_cls.model_fields})
    raise ValueError(f"expected a message that has a chunk class, found a {type(message).__name__}")


def _tool_call_chunks(message: AIMessage) -> list[dict[str, Any]]:
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        return [dict(chunk) for chunk in message.tool_call_chunks]
    valid = [(call["name"], _as_json(call["args"]), call["id"]) for call in message.tool_calls]
    invalid = [(call["name"], call["args"], call["id"]) for call in message.invalid_tool_calls]
    return [
        {"name": name, "args": args, "id": call_id, "index": index}
        for index, (name, args, call_id) in enumerate([*valid, *invalid])
    ]


def _as_json(args: Any) -> str:
    return json.dumps(args, ensure_ascii=False, default=str)


# -- text models -------------------------------------------------------------------------------------------------------


def join_texts(chunks: list[GenerationChunk]) -> LLMResult:
    """Return the result that LangChain makes of a stream of text.

    Raises `ValueError` if there are no chunks, as LangChain does for a model with an empty stream.
    """
    if not chunks:
        raise ValueError("No generation chunks were returned")
    return LLMResult(generations=[[functools.reduce(operator.add, chunks)]])


def split_texts(result: LLMResult) -> list[GenerationChunk]:
    """Return a stream of one chunk that holds the first generation of the first prompt.

    Raises `ValueError` if the result has no generation.
    """
    if not result.generations or not result.generations[0]:
        raise ValueError("expected a result with at least one generation, found none")
    generation = result.generations[0][0]
    return [GenerationChunk(text=generation.text, generation_info=generation.generation_info)]
