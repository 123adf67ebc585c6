"""Spans in the words of OpenInference, as calls.

https://github.com/Arize-ai/openinference, `spec/semantic_conventions.md`: the kind of a span is
`openinference.span.kind`, and messages are attributes one by one, as `llm.input_messages.0.message.content`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.integration.importing.foreign_files import literal_arguments
from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.integration.importing.spans import Span, parsed
from agenttape_core.integration.importing.traced_calls import (
    NO_CONTENT,
    NO_METADATA,
    NO_VECTORS,
    RESULT_AS_TEXT,
    SOME_PARAMETERS,
    STREAMED,
    Convention,
    Message,
    TracedModelCall,
    TracedRetrieval,
    TracedToolCall,
)

KIND = "openinference.span.kind"
_STREAMING = "First Token Stream Event"
_NOT_SENT = frozenset({"messages", "tools", "functions", "_type", "stream"})


def openinference_call(span: Span) -> Convention | None:
    """Return the call that a span describes; None if it isn't a call of a model, a tool or a retriever.

    Raises `NotImportableError` if its content is not in the trace.
    """
    kind = span.text(KIND).upper()
    if kind == "LLM":
        return _chat(span)
    if kind == "TOOL":
        return _tool(span)
    if kind == "RETRIEVER":
        return _retrieval(span)
    if kind == "EMBEDDING":
        raise NotImportableError(NO_VECTORS)
    return None


def _chat(span: Span) -> Convention:
    told = span.attributes
    messages, answers = _messages(told, "llm.input_messages"), _messages(told, "llm.output_messages")
    if not messages or (not answers and span.error is None):
        raise NotImportableError(NO_CONTENT)
    given = span.structured("llm.invocation_parameters")
    params = {key: value for key, value in given.items() if key not in _NOT_SENT} if isinstance(given, dict) else {}
    model = span.text("llm.model_name")
    losses = [NO_METADATA, *([] if params else [SOME_PARAMETERS])]
    if any(name == _STREAMING for name, _ in span.events) or (isinstance(given, dict) and given.get("stream")):
        losses.append(STREAMED)
    call = TracedModelCall(
        span.name,
        params if params.get("model") or params.get("model_name") or not model else {"model": model, **params},
        messages,
        _tools(told) or _given_tools(given),
        answers[0] if answers else None,
        span.text("llm.finish_reason"),
        model,
        "",
        _count(told, "llm.token_count.prompt"),
        _count(told, "llm.token_count.completion"),
    )
    return Convention(call, tuple(losses))


def _tool(span: Span) -> Convention:
    given, result = span.attributes.get("input.value"), span.attributes.get("output.value")
    if given is None or (result is None and span.error is None):
        raise NotImportableError(NO_CONTENT)
    arguments = parsed(given) if isinstance(given, str) else given
    arguments = literal_arguments(arguments) if isinstance(arguments, str) else arguments
    return Convention(TracedToolCall(span.text("tool.name") or span.name, arguments, result), (RESULT_AS_TEXT,))


def _retrieval(span: Span) -> Convention:
    given = span.attributes.get("input.value")
    if not isinstance(given, str):
        raise NotImportableError(NO_CONTENT)
    query = parsed(given)
    found = query.get("query") if isinstance(query, dict) else None
    documents = _numbered(span.attributes, "retrieval.documents", "document")
    read = [
        {
            "id": document.get("id"),
            "content": document.get("content"),
            "metadata": parsed(metadata) if isinstance(metadata := document.get("metadata"), str) else metadata,
            "score": document.get("score"),
        }
        for document in documents
    ]
    return Convention(TracedRetrieval(span.name, found if isinstance(found, str) else given, read), (NO_METADATA,))


def _messages(told: Mapping[str, Any], prefix: str) -> list[Message]:
    return [_message(plain) for plain in _numbered(told, prefix, "message")]


def _message(plain: Mapping[str, Any]) -> Message:
    role, content = str(plain.get("role") or "user"), plain.get("content")
    if role == "tool":
        response = {"type": "tool_call_response", "id": plain.get("tool_call_id"), "response": content}
        return {"role": role, "parts": [response], **_name(plain)}
    parts = [{"type": "text", "content": content}] if isinstance(content, str) and content else []
    parts += [_part(block) for block in _numbered(plain, "contents", "message_content")]
    parts += [_call(call) for call in _numbered(plain, "tool_calls", "tool_call")]
    return {"role": role, "parts": parts, **_name(plain)}


def _name(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": plain["name"]} if isinstance(plain.get("name"), str) else {}


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    url = block.get("image.image.url", block.get("image.url"))
    if isinstance(url, str):
        return {"type": "uri", "modality": "image", "uri": url}
    return {"type": "text", "content": str(block.get("text", ""))}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call.get("function.arguments")
    arguments = {} if arguments is None else parsed(arguments) if isinstance(arguments, str) else arguments
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": str(call.get("function.name", "")),
        "arguments": arguments,
    }


def _tools(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    schemas = (parsed(str(tool.get("json_schema"))) for tool in _numbered(told, "llm.tools", "tool"))
    return [schema for schema in schemas if isinstance(schema, dict)]


def _given_tools(given: Any) -> list[Mapping[str, Any]]:
    tools = given.get("tools") if isinstance(given, dict) else None
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _numbered(told: Mapping[str, Any], prefix: str, each: str) -> list[dict[str, Any]]:
    """Return the items of a list whose fields are attributes one by one: `prefix.0.each.field`."""
    items: dict[int, dict[str, Any]] = {}
    for name, value in told.items():
        if name.startswith(f"{prefix}."):
            number, _, field = name[len(prefix) + 1 :].partition(".")
            if number.isdecimal() and field.startswith(f"{each}."):
                items.setdefault(int(number), {})[field[len(each) + 1 :]] = value
    return [items[number] for number in sorted(items)]


def _count(told: Mapping[str, Any], name: str) -> int | None:
    return told[name] if type(told.get(name)) is int else None
