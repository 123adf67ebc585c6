"""A cassette as spans: the trace of a run, as plain data for any SDK."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agenttape_core.schema import HEADER_ATTRIBUTE, MODEL_KINDS, RECORD_ATTRIBUTE, Interaction, RecordedError, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.export.attributes import (
    OPERATIONS,
    Attributes,
    Placed,
    attributes_of,
    error_of,
    error_type,
    placed_in,
)
from agenttape_core.tools.reading.messages import (
    Answer,
    bare,
    input_messages,
    joined,
    system_instructions,
    tool_definitions,
)
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.timeline import MOMENTS, timeline_of

# -- The ids that models gave to the calls of tools.


_Request = tuple[Any, Any, Any]


def tool_call_ids(interactions: Iterable[Interaction]) -> dict[int, str]:
    """Return the ids that models gave to the calls of tools, by the number of the tool's interaction.

    A recording does not connect the two. A tool's interaction belongs to the request with the same tool name whose id
    it names, or else to the earliest one with the same arguments. Each request has one interaction.
    """
    open_calls: list[_Request] = []
    found: dict[int, str] = {}
    for item in interactions:
        if item.kind in MODEL_KINDS:
            open_calls += _requests(item)
        elif item.kind == "tool" and (call := _answers(item, open_calls)) is not None:
            open_calls.remove(call)
            found[item.number] = call[0]
    return found


def _requests(item: Interaction) -> list[_Request]:
    parts = [part for message in Answer(item.outcome).messages for part in message["parts"]]
    calls = [part for part in parts if part.get("type") == "tool_call" and isinstance(part.get("id"), str)]
    return [(call["id"], call["name"], call["arguments"]) for call in calls]


def _answers(item: Interaction, open_calls: list[_Request]) -> _Request | None:
    name, arguments = item.request.get("name", item.name), item.request.get("arguments")
    named = [call for call in open_calls if call[1] == name]
    by_id = [call for call in named if call[0] in item.ids]
    return next(iter([*by_id, *(call for call in named if call[2] == arguments)]), None)


# -- The content of a record as attributes of a span: messages, and the arguments and results of tools.


_DOCUMENT = {"id": ("id", "id_", "node_id"), "content": ("page_content", "text"), "metadata": ("metadata",)}


def content_of(record: Interaction | Step, order: int) -> dict[str, str]:
    """Return the content of a record by the names of its attributes; `order` is its place in the cassette."""
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
    """Return the embedded texts. The vectors are long, and of no use to a reader."""
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


_NS_PER_MS = 1_000_000
_LATEST = 2**63 - 1
_ROOT = "root"
_CLIENTS = MODELS | {"retrieval", "http", "memory"}
"""The kinds of calls that reach a service. Tools run where the agent does."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An event of a span."""

    name: str
    at_ns: int  # its time: nanoseconds since the epoch
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a trace.

    Args:
        name: Its name.
        trace_id: The id of its trace: 128 bits.
        span_id: Its own id: 64 bits.
        parent_id: The id of the span around it; `None` for the outermost.
        is_client: Whether it is a call that reaches a service.
        start_ns: Its start: nanoseconds since the epoch.
        end_ns: Its end.
        attributes: Its attributes.
        moments: Its events.
        error: The description of its failure, without content unless requested; `None` if it didn't fail.
    """

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    is_client: bool
    start_ns: int
    end_ns: int
    attributes: Attributes
    moments: Sequence[Moment] = ()
    error: str | None = None


def spans_of(cassette: Cassette, *, content: bool = False) -> list[Span]:
    """Return the spans of a run; see `spans_in`."""
    return list(spans_in(cassette, content=content))


def spans_in(cassette: Cassette, *, content: bool = False) -> Iterator[Span]:
    """Yield the spans of a run, each after its parent; none is kept. The same cassette always has the same spans.

    The outermost span is the run itself. Every call and every step is a span, except moments: these are events of the
    span that they happened in.

    Args:
        cassette: The cassette.
        content: Whether to include the texts of people, models and tools.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    return _Spans(cassette, content=content).each()


class _Spans:
    def __init__(self, cassette: Cassette, *, content: bool) -> None:
        self._name = cassette.preface.name
        self._content = content
        self._trace = _trace_id(cassette)
        self._began_ns = _nanoseconds(cassette.preface.volatile.created)
        self._header = cassette.header
        self._cassette = cassette
        self._timeline = timeline_of(cassette)
        self._threads: dict[str, str] = {}
        self._moments: dict[str, list[Moment]] = {}
        self._calls: dict[int, str] = {}  # moments, which are described in the first pass, are no calls
        times: list[_Times] = []
        self._calls = tool_call_ids(self._first_pass(times))
        self._ends = _ends(times)

    def _first_pass(self, times: list[_Times]) -> Iterator[Interaction]:
        """Yield the interactions, and note for each record the data that other spans need: no record is kept."""
        for order, placed in enumerate(placed_in(self._cassette, self._timeline)):
            times.append((placed.id, placed.parent, placed.start_ms, placed.duration_ms))
            thread = _thread(placed, self._threads)
            if thread is not None:
                self._threads[placed.id] = thread
            if placed.record.kind in MOMENTS:
                self._moments.setdefault(placed.parent or _ROOT, []).append(self._moment(placed, order))
            if isinstance(placed.record, Interaction):
                yield placed.record

    def each(self) -> Iterator[Span]:
        run: Attributes = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": self._name}
        yield Span(
            f"invoke_workflow {self._name}",
            self._trace,
            self._id(_ROOT),
            None,
            is_client=False,
            start_ns=self._began_ns,
            end_ns=self._at(max(self._ends.values(), default=0.0)),
            attributes={**run, "agenttape.cassette": self._name, **self._whole_header()},
            moments=self._moments.get(_ROOT, ()),
        )
        for order, placed in enumerate(placed_in(self._cassette, self._timeline)):
            if placed.record.kind not in MOMENTS:
                yield self._span(placed, order)

    def _whole_header(self) -> Attributes:
        """Return the header as an attribute, without the key of the redaction: its only use is to guess at secrets."""
        if not self._content:
            return {}
        header = self._header.model_dump(mode="json", exclude_defaults=True, exclude={"redaction": {"key"}})
        return {HEADER_ATTRIBUTE: json.dumps(header)}

    def _span(self, placed: Placed, order: int) -> Span:
        record, error = placed.record, error_of(placed.record)
        moments = [*self._moments.get(placed.id, ())]
        end_ns = self._at(self._ends[placed.id])
        if error is not None:
            moments.append(Moment("exception", end_ns, self._described(error)))
        return Span(
            _name_of(placed),
            self._trace,
            self._id(placed.id),
            self._id(placed.parent or _ROOT),
            is_client=isinstance(record, Interaction) and record.kind in _CLIENTS,
            start_ns=self._at(placed.start_ms),
            end_ns=end_ns,
            attributes=self._attributes(placed, order),
            moments=moments,
            error=None if error is None else error.message if self._content else error_type(error),
        )

    def _attributes(self, placed: Placed, order: int) -> Attributes:
        attributes = attributes_of(placed)
        if (call := self._calls.get(placed.record.number)) and isinstance(placed.record, Interaction):
            attributes["gen_ai.tool.call.id"] = call
        if (thread := self._threads.get(placed.id)) is not None:
            attributes["gen_ai.conversation.id"] = thread
        return attributes | content_of(placed.record, order) if self._content else attributes

    def _moment(self, placed: Placed, order: int) -> Moment:
        return Moment(f"agenttape.{placed.record.kind}", self._at(placed.start_ms), self._attributes(placed, order))

    def _described(self, error: RecordedError) -> Attributes:
        message = {"exception.message": error.message} if self._content else {}
        return {"exception.type": error_type(error), **message}

    def _id(self, name: str) -> int:
        return _number(8, "span", f"{self._trace:032x}", name)

    def _at(self, ms: float) -> int:
        return max(0, min(self._began_ns + round(ms * _NS_PER_MS), _LATEST))


def _name_of(placed: Placed) -> str:
    record = placed.record
    operation = OPERATIONS.get(record.kind, record.kind)
    if isinstance(record, Interaction) and record.kind in MODELS:
        model = record.request.get("model")
        return f"{operation} {model if isinstance(model, str) else record.name}"
    if isinstance(record, Interaction) and record.kind == "http":
        return str(record.request.get("method", "HTTP"))
    return f"{operation} {record.name}"


_Times = tuple[str, str | None, float, float | None]
"""For a record: its id, its parent's id, its start and its duration; see `Placed`."""


def _ends(records: Sequence[_Times]) -> dict[str, float]:
    """Return the end of each record in milliseconds; where it is unknown, the end of the last record in it."""
    ends: dict[str, float] = {}
    for own, parent, start_ms, duration_ms in reversed(records):
        if duration_ms is not None:
            ends[own] = start_ms + duration_ms
        end = ends.setdefault(own, start_ms)
        if parent is not None:
            ends[parent] = max(ends.get(parent, end), end)
    return ends


def _thread(placed: Placed, threads: Mapping[str, str]) -> str | None:
    """Return the thread of a record: its own, or the one of the record around it."""
    own = placed.record.metadata.get("thread_id")
    if isinstance(own, str | int):
        return str(own)
    return threads.get(placed.parent) if placed.parent is not None else None


def _trace_id(cassette: Cassette) -> int:
    preface = cassette.preface
    requests = [f"{entry.number} {entry.address} {entry.fingerprint}" for entry in cassette.entries]
    return _number(16, "trace", preface.name, preface.volatile.created, *requests)


def _number(size: int, *texts: str) -> int:
    digest = hashlib.sha256("\0".join(texts).encode()).digest()
    return int.from_bytes(digest[:size]) or 1  # zero is no id


def _nanoseconds(created: str) -> int:
    """Return the start of a recording; the epoch if it is unknown or malformed."""
    try:
        began = datetime.fromisoformat(created)
    except ValueError:
        return 0
    began = began if began.tzinfo is not None else began.replace(tzinfo=UTC)
    return max(0, round(began.timestamp() * 1000)) * _NS_PER_MS
