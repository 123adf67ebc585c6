"""Traces of OpenTelemetry as calls of LlamaIndex."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ContentBlock, ImageBlock, TextBlock
from llama_index.core.schema import NodeWithScore, TextNode

from agenttape_core import Rule
from agenttape_core.integration import Boundary, importing
from agenttape_core.integration.importing import (
    ImportReport,
    NotImportableError,
    Traced,
    TracedModelCall,
    TracedRetrieval,
    TracedToolCall,
    parts_in,
    results_in,
    role_in,
    tool_calls_in,
)
from agenttape_llamaindex.importers.requests import History, assistant, image, image_of, tool_result
from agenttape_llamaindex.llms import CHAT
from agenttape_llamaindex.requests import chat_body, retrieval_body, tool_body
from agenttape_llamaindex.retrievers import RETRIEVAL
from agenttape_llamaindex.tools import TOOL


def import_otel(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
) -> ImportReport:
    """Make a cassette of a trace: spans of OpenTelemetry in OTLP/JSON.

    An export of AgentTape with its content becomes the cassette that it was made of. All other spans, in the words of
    OpenTelemetry's GenAI conventions, of OpenInference or of OpenLLMetry, make lossy calls.

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
    return importing.import_otel(source, target, TracedCalls(), overwrite=overwrite, redact=redact, tags=tags)


class TracedCalls:
    """Makes calls of LlamaIndex; see core's `TraceFramework`."""

    def traced_request(self, call: Traced) -> tuple[Boundary, str, dict[str, Any]]:
        """Return the boundary, the name and the request of a call."""
        if isinstance(call, TracedToolCall):
            given = call.arguments
            return TOOL, call.name, tool_body(call.name, given if isinstance(given, dict) else {"input": given})
        if isinstance(call, TracedRetrieval):
            return RETRIEVAL, call.name, retrieval_body(call.query, {})
        messages = [message for plain in call.messages for message in _messages(plain)]
        params = {**call.params, **({"tools": list(call.tools)} if call.tools else {})}
        return CHAT, call.model_class, chat_body(messages, params)

    def traced_value(self, call: Traced) -> Any:
        """Return the value of a call."""
        if isinstance(call, TracedToolCall):
            return call.result
        if isinstance(call, TracedRetrieval):
            return [_node(plain) for plain in call.documents]
        return _response(call)

    def ids_of(self, value: Any) -> tuple[str, ...]:
        """Return an empty list: the value of a tool has no ids of the run."""
        return ()


def _messages(plain: Mapping[str, Any]) -> Iterator[ChatMessage]:
    """Yield a message of a trace, which may hold the results of several tools."""
    if results := results_in(plain):
        for call_id, result in results:
            yield tool_result(call_id, "" if result is None else str(result))
        return
    role, parts = role_in(plain), parts_in(plain)
    if role == "assistant":
        yield _of_model(parts)
    else:
        yield ChatMessage(role=role, blocks=[block for part in parts if (block := _block(part)) is not None])


def _of_model(parts: list[dict[str, Any]]) -> ChatMessage:
    text = "".join(str(part.get("content") or "") for part in parts if part.get("type") == "text")
    calls = [
        (str(call_id or ""), name, read if isinstance(read, dict) else given or {})
        for call_id, name, given, read in tool_calls_in(parts)
    ]
    return assistant(text, calls, History())


def _block(part: Mapping[str, Any]) -> ContentBlock | None:
    kind = part.get("type")
    if kind == "text":
        return TextBlock(text=str(part.get("content") or ""))
    if kind == "uri":
        return _image(str(part.get("uri")))
    return image_of(str(part.get("mime_type")), str(part.get("content"))) if kind == "blob" else None


def _image(url: str) -> ImageBlock:
    try:
        return image(url)
    except ValueError as error:
        raise NotImportableError("the address of an image is none") from error


def _response(call: TracedModelCall) -> ChatResponse:
    parts = parts_in(call.answer)
    usage = {"prompt_tokens": call.input_tokens, "completion_tokens": call.output_tokens}
    told = {"model": call.model, "id": call.answer_id, "finish_reason": call.finish_reason}
    raw: dict[str, Any] = {key: text for key, text in told.items() if text}
    if known := {key: count for key, count in usage.items() if count is not None}:
        raw["usage"] = known
    return ChatResponse(message=_of_model(parts), raw=raw or None)


def _node(plain: Mapping[str, Any]) -> NodeWithScore:
    text, metadata, score, own = (plain.get(key) for key in ("content", "metadata", "score", "id"))
    if not isinstance(text, str):
        raise NotImportableError("a node has no text")
    named = {"id_": own} if isinstance(own, str) else {}
    node = TextNode(text=text, metadata=metadata if isinstance(metadata, dict) else {}, **named)
    return NodeWithScore(node=node, score=score if isinstance(score, float) else None)
