"""Spans of OpenInference's instrumentation of LangChain: they hold the inputs and outputs of runs, as LangSmith does.

An input or an output with one value alone is that value, without its name, if it is a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agenttape_core.integration.importing import Graded, Importing, Span, literal_arguments, parsed
from agenttape_langchain.importers.foreign_objects import is_message, read_message
from agenttape_langchain.importers.langsmith import graded_runs

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
    """Import the spans of a file, and return their grades.

    Args:
        importing: The cassette.
        path: The file, for errors.
        spans: All of its spans.
    """
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
