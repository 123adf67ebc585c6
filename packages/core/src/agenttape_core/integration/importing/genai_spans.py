"""Spans in the words of OpenTelemetry's GenAI conventions, as calls.

https://github.com/open-telemetry/semantic-conventions-genai: messages are JSON in `gen_ai.input.messages` and
`gen_ai.output.messages`, of the span or of its event `gen_ai.client.inference.operation.details`. OpenLLMetry has
them one by one, as `gen_ai.prompt.0.content`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

CHATS = frozenset({"chat", "generate_content", "text_completion"})
_DETAILS = "gen_ai.client.inference.operation.details"
_REQUEST = "gen_ai.request."
_PARAMETERS = {
    "model": "model", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_tokens": "max_tokens",
    "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty", "seed": "seed",
    "stop_sequences": "stop", "choice.count": "n",
}  # fmt: skip
"""After `gen_ai.request.`: the name in a request."""
_CLASSES = {"anthropic": "ChatAnthropic", "openai": "ChatOpenAI", "azure.ai.openai": "AzureChatOpenAI"}


def operation_of(span: Span) -> str:
    """Return the operation of a span; empty if it doesn't follow these conventions."""
    older = {"completion": "text_completion", "embedding": "embeddings", "tool": "execute_tool"}
    named = span.text("gen_ai.operation.name", "llm.request.type")
    kind = span.text("traceloop.span.kind")
    return older.get(named or kind, named) or ("chat" if span.text(f"{_REQUEST}model") else "")


def genai_call(span: Span) -> Convention | None:
    """Return the call that a span describes; None if it isn't a call of a model, a tool or a retriever.

    Raises `NotImportableError` if its content is not in the trace.
    """
    operation = operation_of(span)
    if operation in CHATS:
        return _chat(span)
    if operation == "execute_tool":
        return _tool(span)
    if operation == "retrieval":
        return _retrieval(span)
    if operation == "embeddings":
        raise NotImportableError(NO_VECTORS)
    return None


def _chat(span: Span) -> Convention:
    told = {**span.attributes, **next((given for name, given in span.events if name == _DETAILS), {})}
    messages = _messages(told.get("gen_ai.input.messages")) or _numbered(told, "gen_ai.prompt")
    system = _parts(told.get("gen_ai.system_instructions"))
    answers = _messages(told.get("gen_ai.output.messages")) or _numbered(told, "gen_ai.completion")
    if not messages or (not answers and span.error is None):
        raise NotImportableError(NO_CONTENT)
    if system:
        messages = [{"role": "system", "parts": system}, *messages]
    params = {name: told[_REQUEST + key] for key, name in _PARAMETERS.items() if told.get(_REQUEST + key) is not None}
    reasons = told.get("gen_ai.response.finish_reasons")
    answer = answers[0] if answers else None
    reason = reasons[0] if isinstance(reasons, list) and reasons else (answer or {}).get("finish_reason")
    losses = [SOME_PARAMETERS, NO_METADATA]
    if told.get(f"{_REQUEST}stream") or "gen_ai.response.time_to_first_chunk" in told:
        losses.append(STREAMED)
    provider = span.text("gen_ai.provider.name", "gen_ai.system")
    call = TracedModelCall(
        span.text("agenttape.name") or _CLASSES.get(provider, provider or "chat"),
        params,
        messages,
        _tools(told.get("gen_ai.tool.definitions")),
        answer,
        reason if isinstance(reason, str) else "",
        span.text("gen_ai.response.model"),
        span.text("gen_ai.response.id"),
        _count(told, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        _count(told, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    )
    return Convention(call, tuple(losses))


def _tool(span: Span) -> Convention:
    name = span.text("gen_ai.tool.name", "traceloop.entity.name") or span.name.removeprefix("execute_tool ")
    given = next(
        (name for name in ("gen_ai.tool.call.arguments", "traceloop.entity.input") if name in span.attributes), ""
    )
    result = next(
        (name for name in ("gen_ai.tool.call.result", "traceloop.entity.output") if name in span.attributes), ""
    )
    if not given or (not result and span.error is None):
        raise NotImportableError(NO_CONTENT)
    call_id = span.text("gen_ai.tool.call.id")
    return Convention(
        TracedToolCall(name, span.structured(given), span.attributes.get(result), call_id), (RESULT_AS_TEXT,)
    )


def _retrieval(span: Span) -> Convention:
    query, documents = span.text("gen_ai.retrieval.query.text"), span.structured("gen_ai.retrieval.documents")
    if not query or not isinstance(documents, list):
        raise NotImportableError(NO_CONTENT)
    name = span.text("agenttape.name", "gen_ai.data_source.id") or span.name.removeprefix("retrieval ")
    found = [document for document in documents if isinstance(document, dict)]
    return Convention(TracedRetrieval(name, query, found), (NO_METADATA,))


def _messages(value: Any) -> list[Message]:
    """Return messages, each with its parts."""
    listed = parsed(value) if isinstance(value, str) else value
    found = [message for message in listed if isinstance(message, dict)] if isinstance(listed, list) else []
    return [{**message, "parts": _parts(message.get("parts", message.get("content")))} for message in found]


def _parts(value: Any) -> list[dict[str, Any]]:
    listed = parsed(value) if isinstance(value, str) and value[:1] == "[" else value
    if isinstance(listed, str):
        return [{"type": "text", "content": listed}]
    return [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []


def _numbered(told: Mapping[str, Any], prefix: str) -> list[Message]:
    """Return messages whose parts are attributes one by one: `gen_ai.prompt.0.role`."""
    messages: list[Message] = []
    while any(f"{prefix}.{len(messages)}.{key}" in told for key in ("role", "content", "tool_calls.0.name")):
        own = f"{prefix}.{len(messages)}"
        role, content = str(told.get(f"{own}.role") or "user"), told.get(f"{own}.content")
        call_id = told.get(f"{own}.tool_call_id")
        if role == "tool" or call_id:
            parts: list[dict[str, Any]] = [{"type": "tool_call_response", "id": call_id, "response": content}]
        else:
            parts = _blocks(content) if content not in (None, "") else []
        calls = 0
        while f"{own}.tool_calls.{calls}.name" in told:
            one = f"{own}.tool_calls.{calls}"
            arguments = told.get(f"{one}.arguments")
            arguments = parsed(arguments) if isinstance(arguments, str) else arguments
            parts.append(
                {"type": "tool_call", "id": told.get(f"{one}.id"), "name": told[f"{one}.name"], "arguments": arguments}
            )
            calls += 1
        messages.append({"role": role, "parts": parts, "finish_reason": told.get(f"{own}.finish_reason")})
    return messages


def _blocks(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a content that may be a list of blocks in OpenAI's or Anthropic's form, as JSON."""
    blocks = parsed(content) if isinstance(content, str) and content[:2] == "[{" else None
    if isinstance(blocks, list) and all(
        isinstance(block, dict) and isinstance(block.get("text"), str) for block in blocks
    ):
        return [{"type": "text", "content": block["text"]} for block in blocks]
    return [{"type": "text", "content": content if isinstance(content, str) else str(content)}]


def _tools(value: Any) -> list[Mapping[str, Any]]:
    """Return the tools that are offered, as OpenAI's interface has them."""
    listed = parsed(value) if isinstance(value, str) else value
    found = [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
    return [tool if "function" in tool else _function(tool) for tool in found]


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type", "function") != "function":
        return dict(tool)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


def _count(told: Mapping[str, Any], *names: str) -> int | None:
    return next((told[name] for name in names if type(told.get(name)) is int), None)
