"""The content of a record as attributes of a span: messages, and the arguments and results of tools.

Structured values are JSON in a string, which the conventions allow on spans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agenttape_core.schema import MODEL_KINDS, RECORD_ATTRIBUTE, Interaction, Step
from agenttape_core.tools.reading.answer import Answer, bare, joined
from agenttape_core.tools.reading.messages import input_messages, system_instructions, tool_definitions

_DOCUMENT = {"id": ("id", "id_", "node_id"), "content": ("page_content", "text"), "metadata": ("metadata",)}


def content_of(record: Interaction | Step, order: int) -> dict[str, str]:
    """Return the content of a record by the names of its attributes.

    Args:
        record: An interaction or a step.
        order: Its place among the records of the cassette.
    """
    if isinstance(record, Step):
        content = {"agenttape.input": record.input, "agenttape.output": record.output, "agenttape.data": record.data}
    else:
        content = _BY_KIND.get(record.kind, _of_call)(record)
    content |= {"agenttape.tags": record.tags, "agenttape.metadata": record.metadata}
    content["agenttape.fidelity_note"] = record.fidelity_note
    sort = "step" if isinstance(record, Step) else "interaction"
    whole = {"order": order, sort: record.model_dump(mode="json", exclude_defaults=True)}
    content[RECORD_ATTRIBUTE] = json.dumps(whole)
    return {name: _text(value) for name, value in content.items() if value not in (None, "", [], {})}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _of_model(item: Interaction) -> dict[str, Any]:
    return {
        "gen_ai.system_instructions": system_instructions(item.request),
        "gen_ai.input.messages": input_messages(item.request),
        "gen_ai.tool.definitions": tool_definitions(item.request),
        "gen_ai.output.messages": Answer(item.outcome).messages,
    }


def _of_tool(item: Interaction) -> dict[str, Any]:
    return {
        "gen_ai.tool.call.arguments": item.request.get("arguments", item.request),
        "gen_ai.tool.call.result": joined(item.outcome),
    }


def _of_retrieval(item: Interaction) -> dict[str, Any]:
    query, found = item.request.get("query"), item.outcome.value
    documents = [_document(each) for each in found] if isinstance(found, list) else None
    query_or_input = (
        {"gen_ai.retrieval.query.text": query} if isinstance(query, str) else {"agenttape.input": item.request}
    )
    return {**query_or_input, "gen_ai.retrieval.documents": documents}


def _document(found: Any) -> dict[str, Any]:
    """Return a document in the form of the conventions: its id, content, metadata and score."""
    outer = bare(found)
    inner = bare(outer.get("node")) if isinstance(outer, Mapping) and "node" in outer else outer
    if not isinstance(outer, Mapping) or not isinstance(inner, Mapping):
        return {"content": found}
    known = {name: next((inner[key] for key in keys if key in inner), None) for name, keys in _DOCUMENT.items()}
    return {key: item for key, item in {**known, "score": outer.get("score")}.items() if item is not None}


def _of_embeddings(item: Interaction) -> dict[str, Any]:
    """Return the embedded texts. The vectors are long, and tell a reader nothing."""
    return {"agenttape.input": item.request.get("input", item.request)}


def _of_call(item: Interaction) -> dict[str, Any]:
    outcome = item.outcome
    given = outcome.chunks if outcome.chunks is not None else outcome.value
    return {"agenttape.input": item.request, "agenttape.output": given}


_BY_KIND: dict[str, Callable[[Interaction], dict[str, Any]]] = {
    **dict.fromkeys(MODEL_KINDS, _of_model),
    "embeddings": _of_embeddings,
    "retrieval": _of_retrieval,
    "tool": _of_tool,
}
