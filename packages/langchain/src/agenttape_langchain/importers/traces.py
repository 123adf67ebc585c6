"""Traces of OpenTelemetry as calls of LangChain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from agenttape_core import Rule
from agenttape_core.integration import Boundary, importing
from agenttape_core.integration.importing import (
    Graded,
    Importing,
    ImportReport,
    NotImportableError,
    Span,
    Traced,
    TracedModelCall,
    TracedRetrieval,
    TracedToolCall,
    Whole,
    literal_arguments,
    parsed,
    parts_in,
    results_in,
    role_in,
    tool_calls_in,
)
from agenttape_langchain._compat import as_provider_sees
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.importers.foreign_objects import is_message, read_message
from agenttape_langchain.importers.langsmith import graded_runs
from agenttape_langchain.importers.requests import tool_names
from agenttape_langchain.requests import RETRIEVAL, chat_body, retrieval_body, tool_body
from agenttape_langchain.tools import TOOL

# -- Spans of OpenInference's instrumentation of LangChain: they hold the inputs and outputs of runs, as LangSmith does.
#
# An input or an output with one value alone is that value, without its name, if it is a text.

_RUN_TYPES = {"LLM": "llm", "TOOL": "tool", "RETRIEVER": "retriever", "EMBEDDING": "embedding"}
_ONLY_INPUT = {"TOOL": "input", "RETRIEVER": "query"}
_STREAMING = "First Token Stream Event"
_NAMELESS = "the trace has its one argument without the name"

_Calls = dict[tuple[str, str], str]
"""The name of the one argument of a tool's call, by the tool and the argument."""


def holds_runs(spans: Sequence[Span]) -> bool:
    """Return whether the spans of a file hold the inputs and outputs of runs."""
    return any(isinstance(result, dict) and "generations" in result for result in _results(spans))


def import_runs(importing: Importing, path: Path, spans: Sequence[Span]) -> list[Graded]:
    """Import the spans of a file, and return their grades."""
    asked = dict(call for result in _results(spans) for call in _calls_in(result))
    return graded_runs(importing, path, [_run(span, asked) for span in spans])


def _results(spans: Sequence[Span]) -> Iterator[Any]:
    return (_structured(span, "output.value") for span in spans if _kind(span) == "LLM")


def _kind(span: Span) -> str:
    return span.text("openinference.span.kind").upper()


def _calls_in(plain: Any) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the calls of tools with one argument, a text, that the messages of an answer ask for."""
    waiting = [plain]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict) and is_message(value):
            for call in getattr(read_message(value), "tool_calls", ()):
                for name, given in call["args"].items():
                    if len(call["args"]) == 1 and isinstance(given, str):
                        yield (call["name"], given), name
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value


def _run(span: Span, asked: _Calls) -> dict[str, Any]:
    """Return a span in the form of an exported run of LangSmith."""
    metadata, params = span.structured("metadata"), span.structured("llm.invocation_parameters")
    failed = next((told.get("exception.stacktrace") for name, told in span.events if name == "exception"), None)
    extra = {"invocation_params": params, "metadata": metadata}
    run = {
        "id": span.id,
        "parent_run_id": span.parent,
        "name": span.name,
        "run_type": _RUN_TYPES.get(_kind(span), "chain"),
        "error": None if span.error is None else failed or span.error or "Exception",
        "extra": {key: value for key, value in extra.items() if isinstance(value, dict)},
        "tags": _tags(span, metadata),
        "events": [{"name": "new_token"} for name, _ in span.events if name == _STREAMING][:1],
        "start_time": _iso(span.start_ns),
        "end_time": _iso(span.end_ns),
    }
    result = _structured(span, "output.value")
    is_alone = _kind(span) == "TOOL" or not isinstance(result, dict)
    outputs = {} if result is None else {"output": result} if is_alone else result
    return {**run, **_inputs(span, asked), "outputs": None if span.error is not None else outputs}


def _tags(span: Span, metadata: Any) -> list[str]:
    """Return the tags of a run. Those of LangGraph, which are not in the trace, follow from its metadata."""
    listed = span.attributes.get("tag.tags")
    tags = [tag for tag in listed if isinstance(tag, str)] if isinstance(listed, list) else []
    known = metadata if isinstance(metadata, dict) else {}
    is_node = known.get("langgraph_node") == span.name and type(known.get("langgraph_step")) is int
    return [*tags, f"graph:step:{known['langgraph_step']}"] if is_node else tags


def _inputs(span: Span, asked: _Calls) -> dict[str, Any]:
    """Return the inputs of a run, and the doubt about them."""
    given = _structured(span, "input.value")
    if isinstance(given, dict):
        return {"inputs": given}
    if _kind(span) != "TOOL" or not isinstance(given, str) or isinstance(literal_arguments(given), dict):
        return {"inputs": {_ONLY_INPUT.get(_kind(span), "input"): given}}
    name = asked.get((span.name, given))
    return {"inputs": {"input": given}, "doubt": _NAMELESS} if name is None else {"inputs": {name: given}}


def _structured(span: Span, name: str) -> Any:
    value = span.attributes.get(name)
    return parsed(value) if isinstance(value, str) and value[:1] in ("{", "[") else value


def _iso(nanoseconds: int) -> str | None:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat() if nanoseconds else None


def import_otel(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
) -> ImportReport:
    """Make a cassette of a trace: spans of OpenTelemetry in OTLP/JSON.

    An export of AgentTape with its content becomes the cassette that it was made of. Spans of OpenInference's
    instrumentation of LangChain hold what callbacks received, and are read like an export of LangSmith. All other
    spans in the words of OpenTelemetry's GenAI conventions, of OpenInference or of OpenLLMetry make lossy calls.

    Args:
        source: The file; JSON lines and gzip work as well.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.

    Returns:
        The report, with a grade for each call of a model, a tool or a retriever.

    Raises:
        CassetteFormatError: If the source holds no spans.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    calls, whole = TracedCalls(), Whole(holds_runs, import_runs)
    return importing.import_otel(source, target, calls, whole=whole, overwrite=overwrite, redact=redact, tags=tags)


class TracedCalls:
    """Makes calls of LangChain; see core's `TraceFramework`."""

    def traced_request(self, call: Traced) -> tuple[Boundary, str, dict[str, Any]]:
        """Return the boundary, the name and the request of a call."""
        if isinstance(call, TracedToolCall):
            return TOOL, call.name, tool_body(call.name, call.arguments)
        if isinstance(call, TracedRetrieval):
            return RETRIEVAL, call.name, retrieval_body(call.query, {})
        messages = _named([message for plain in call.messages for message in _messages(plain)])
        params = {**call.params, **({"tools": list(call.tools)} if call.tools else {})}
        return CHAT, call.model_class, chat_body(as_provider_sees(messages, traced=True), params)

    def traced_value(self, call: Traced) -> Any:
        """Return the value of a call."""
        if isinstance(call, TracedToolCall):
            return _tool_value(call)
        if isinstance(call, TracedRetrieval):
            return [_document(plain) for plain in call.documents]
        return ChatResult(generations=[ChatGeneration(message=_answer(call))])

    def ids_of(self, value: Any) -> tuple[str, ...]:
        """Return the run-specific ids in the value of a tool."""
        return (value.tool_call_id,) if isinstance(value, ToolMessage) else ()


def _messages(plain: Mapping[str, Any]) -> list[BaseMessage]:
    """Return a message of a trace, which may hold the results of several tools."""
    parts, name = parts_in(plain), plain.get("name")
    named = {"name": name} if isinstance(name, str) else {}
    if results := results_in(plain):
        return [ToolMessage(_text(result), tool_call_id=call_id, **named) for call_id, result in results]
    role = role_in(plain)
    if role == "assistant":
        return [AIMessage(_content(parts), **_calls(parts), **named)]
    author = SystemMessage if role == "system" else HumanMessage
    return [author(_content(parts), **named)]


def _named(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages with the names of the tools that results are of: LangChain sets them, and no one sends them."""
    names = tool_names(messages)
    return [
        message.model_copy(update={"name": names.get(message.tool_call_id)})
        if isinstance(message, ToolMessage) and message.name is None
        else message
        for message in messages
    ]


def _content(parts: Sequence[Mapping[str, Any]]) -> str | list[str | dict[Any, Any]]:
    """Return a content: a text if it consists of text only, or else a list of blocks."""
    blocks = [block for part in parts if (block := _block(part)) is not None]
    if all(block["type"] == "text" for block in blocks):
        return "".join(str(block["text"]) for block in blocks)
    return list(blocks)


def _block(part: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": str(part.get("content") or "")}
    if kind == "uri":
        return {"type": "image_url", "image_url": {"url": str(part.get("uri"))}}
    if kind == "blob":
        url = f"data:{part.get('mime_type') or 'application/octet-stream'};base64,{part.get('content')}"
        return {"type": "image_url", "image_url": {"url": url}}
    return None  # a tool call, which stands beside the content, or reasoning, which is not sent back


def _calls(parts: list[dict[str, Any]]) -> dict[str, Any]:
    good, bad = [], []
    for call_id, name, given, args in tool_calls_in(parts):
        if isinstance(args, dict) or args is None:
            good.append(ToolCall(name=name, args=args or {}, id=call_id, type="tool_call"))
        else:
            bad.append(InvalidToolCall(name=name, args=str(given), id=call_id, error=None, type="invalid_tool_call"))
    return {"tool_calls": good, "invalid_tool_calls": bad}


def _answer(call: TracedModelCall) -> AIMessage:
    parts = parts_in(call.answer)
    told = {"model_name": call.model, "finish_reason": call.finish_reason, "id": call.answer_id}
    sent, got = call.input_tokens, call.output_tokens
    usage = UsageMetadata(input_tokens=sent or 0, output_tokens=got or 0, total_tokens=(sent or 0) + (got or 0))
    return AIMessage(
        _content(parts),
        **_calls(parts),
        response_metadata={key: text for key, text in told.items() if text},
        usage_metadata=None if sent is None and got is None else usage,
    )


def _tool_value(call: TracedToolCall) -> Any:
    """Return the result of a tool: the message that LangChain makes of it, if a model requested the call."""
    plain = parsed(call.result) if isinstance(call.result, str) else call.result
    if is_message(plain):
        return read_message(plain)
    if call.call_id:
        return ToolMessage(_text(call.result), name=call.name, tool_call_id=call.call_id)
    return call.result


def _text(value: Any) -> Any:
    return value if isinstance(value, str | list) else "" if value is None else str(value)


def _document(plain: Mapping[str, Any]) -> Document:
    content, metadata, own = plain.get("content"), plain.get("metadata"), plain.get("id")
    if not isinstance(content, str):
        raise NotImportableError("a document has no content")
    named = {"id": own} if isinstance(own, str) else {}
    return Document(content, metadata=metadata if isinstance(metadata, dict) else {}, **named)
