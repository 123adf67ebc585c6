"""The attributes of a span apart from its content, in the words of OpenTelemetry's semantic conventions.

`gen_ai.*` is defined in https://github.com/open-telemetry/semantic-conventions-genai. Attributes that the conventions
lack begin with `agenttape.`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS, Interaction, RecordedError, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.messages import Answer
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.summary import model_of
from agenttape_core.tools.reading.timeline import Row, Timeline, timeline_of

# -- The provider of a model, in the words of OpenTelemetry's GenAI conventions (`gen_ai.provider.name`).


_PROVIDERS = (
    ("azurechatopenai", "azure.ai.openai"),
    ("azureopenai", "azure.ai.openai"),
    ("azureai", "azure.ai.inference"),
    ("openai", "openai"),
    ("anthropic", "anthropic"),
    ("bedrock", "aws.bedrock"),
    ("vertex", "gcp.vertex_ai"),
    ("gemini", "gcp.gemini"),
    ("googlegenerativeai", "gcp.gemini"),
    ("googlegenai", "gcp.gen_ai"),
    ("cohere", "cohere"),
    ("deepseek", "deepseek"),
    ("groq", "groq"),
    ("watsonx", "ibm.watsonx.ai"),
    ("ibm", "ibm.watsonx.ai"),
    ("mistral", "mistral_ai"),
    ("perplexity", "perplexity"),
    ("xai", "x_ai"),
)
"""Parts of the names of providers and classes, longer ones before those that they contain."""


def provider_name(named: str | None, class_name: str) -> str:
    """Return the conventions' name of a provider, or the framework's; `named` is the one in the answer, if any."""
    for name in filter(None, (named, class_name)):
        plain = name.lower().replace("_", "").replace("-", "")
        for part, provider in _PROVIDERS:
            if part in plain:
                return provider
    return named or class_name


# -- The records of a run with their parents and times.


class Placed(NamedTuple):
    """A record in its place."""

    id: str  # `i` and the number of an interaction, or `s` and the number of a step
    record: Interaction | Step
    parent: str | None  # the id of the record that it happened in; None for the outermost
    start_ms: float  # its start, in milliseconds after the first record's; a guess if it wasn't recorded
    duration_ms: float | None  # its duration in milliseconds; None if unknown
    offsets_ms: Sequence[float] = ()  # the arrival of the chunks of its stream, in milliseconds after its start


def placed_in(cassette: Cassette, timeline: Timeline | None = None) -> Iterator[Placed]:
    """Yield the records in order, parents first; none is kept. Raises `CassetteFormatError` for a malformed one."""
    timeline = timeline if timeline is not None else timeline_of(cassette)
    is_nested = any(entry.parent is not None for entry in cassette.entries)
    calls = {row.number: row for row in timeline.calls} if is_nested else {}
    for record, row, holder in zip(cassette.records(), timeline.rows, timeline.tree.holders, strict=True):
        above = timeline.rows[holder] if holder is not None else None
        if isinstance(record, Interaction):
            above = _parent_of(record, above, calls)
        took = row.duration_ms if row.is_measured or isinstance(record, Interaction) else None
        yield Placed(_id(row), record, _id(above) if above is not None else None, row.start_ms, took, row.chunks_ms)


def _id(row: Row) -> str:
    return f"{row.word[0]}{row.number}"


def _parent_of(item: Interaction, above: Row | None, calls: Mapping[int, Row]) -> Row | None:
    """Return the record that a call happened in: the call that was executing, unless a record below that is nearer."""
    executing = calls.get(item.parent) if item.parent is not None else None
    if executing is None or (above is not None and above.address.startswith(f"{executing.address}/")):
        return above
    return executing


Attributes = dict[str, str | bool | int | float | Sequence[str]]

OPERATIONS = {
    "chat": "chat",
    "completion": "text_completion",
    "embeddings": "embeddings",
    "retrieval": "retrieval",
    "retriever": "retrieval",
    "tool": "execute_tool",
    "agent": "invoke_agent",
}
"""`gen_ai.operation.name` by the kind of an interaction or a step. The conventions have none for other kinds."""

_PARAMETERS: dict[str, tuple[type[int | float], tuple[str, ...]]] = {
    "temperature": (float, ("temperature",)),
    "top_p": (float, ("top_p",)),
    "top_k": (float, ("top_k",)),
    "frequency_penalty": (float, ("frequency_penalty",)),
    "presence_penalty": (float, ("presence_penalty",)),
    "max_tokens": (int, ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens")),
    "seed": (int, ("seed",)),
    "choice.count": (int, ("n",)),
}
"""After `gen_ai.request.`: the type of the value, and its names in requests."""
_OUTPUT_TYPES = {"json_object": "json", "json_schema": "json", "text": "text"}


def attributes_of(placed: Placed) -> Attributes:
    """Return the attributes of a record apart from its content."""
    record, error = placed.record, error_of(placed.record)
    attributes: Attributes = {
        "agenttape.kind": record.kind,
        "agenttape.name": record.name,
        "agenttape.address": record.address,
    }
    if record.kind in OPERATIONS:
        attributes["gen_ai.operation.name"] = OPERATIONS[record.kind]
    if error is not None:
        attributes["error.type"] = error_type(error)
    if record.fidelity != "exact":
        attributes["agenttape.fidelity"] = record.fidelity
    if record.kind == "tool":
        attributes |= {"gen_ai.tool.name": record.name, "gen_ai.tool.type": "function"}
    if isinstance(record, Step):
        named: Attributes = {"gen_ai.agent.name": record.name} if record.kind == "agent" else {}
        return attributes | named | {"agenttape.step": record.number}
    attributes |= {"agenttape.interaction": record.number, "agenttape.fingerprint": record.fingerprint}
    if record.kind in MODELS:
        attributes |= _of_model(record)
    if record.kind == "http":
        attributes |= _of_http(record)
    return attributes | _of_stream(record, placed.offsets_ms)


_REFUSED = RecordedError(
    type="agenttape_core.errors:UnrecordedCallError", message="refused because it had no recording"
)
_CANCELLED = RecordedError(type="asyncio.exceptions:CancelledError", message="cancelled by the program")


def error_of(record: Interaction | Step) -> RecordedError | None:
    """Return the error that a record ended with; for tracers, a cancellation is one, and a refusal."""
    if isinstance(record, Step):
        return record.error
    if record.outcome.status == "refused":
        return _REFUSED
    return _CANCELLED if record.outcome.status == "cancelled" else record.outcome.error


def error_type(error: RecordedError) -> str:
    """Return the name of an error's class, as Python spells it."""
    return error.type.replace(":", ".").removeprefix("builtins.")


def _of_model(item: Interaction) -> Attributes:
    found = Answer(item.outcome) if item.kind in MODEL_KINDS else None
    attributes: Attributes = {"gen_ai.provider.name": provider_name(found.provider if found else None, item.name)}
    if model := model_of(item):
        attributes["gen_ai.request.model"] = model
    attributes |= _parameters(item.request)
    if found is not None:
        texts = {"gen_ai.response.model": found.model, "gen_ai.response.id": found.id}
        attributes |= {name: text for name, text in texts.items() if text is not None}
        if found.finish_reasons:
            attributes["gen_ai.response.finish_reasons"] = found.finish_reasons
        attributes |= {f"gen_ai.usage.{name}": count for name, count in found.tokens.items()}
    counts = item.outcome.usage.model_dump(exclude_none=True) if item.outcome.usage is not None else {}
    return attributes | {f"gen_ai.usage.{name}": count for name, count in counts.items()}


def _parameters(request: Mapping[str, Any]) -> Attributes:
    attributes: Attributes = {}
    for name, (cls, keys) in _PARAMETERS.items():
        number = next((request[key] for key in keys if type(request.get(key)) in {int, float}), None)
        if number is not None and not (name == "choice.count" and number == 1):
            attributes[f"gen_ai.request.{name}"] = cls(number)
    stop = request.get("stop", request.get("stop_sequences"))
    words = [stop] if isinstance(stop, str) else stop
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        attributes["gen_ai.request.stop_sequences"] = words
    form = request.get("response_format")
    kind = form.get("type") if isinstance(form, Mapping) else None
    if isinstance(kind, str) and kind in _OUTPUT_TYPES:
        attributes["gen_ai.output.type"] = _OUTPUT_TYPES[kind]
    if type(request.get("dimensions")) is int:
        attributes["gen_ai.embeddings.dimension.count"] = request["dimensions"]
    return attributes


def _of_http(item: Interaction) -> Attributes:
    """Return the attributes of an HTTP call. Path and query are left out: they are content."""
    attributes: Attributes = {}
    method, url = item.request.get("method"), item.request.get("url")
    if isinstance(method, str):
        attributes["http.request.method"] = method
    if isinstance(url, Mapping):
        names = {"server.address": url.get("host"), "url.scheme": url.get("scheme"), "server.port": url.get("port")}
        attributes |= {name: value for name, value in names.items() if isinstance(value, str | int)}
    first = item.outcome.chunks[0] if item.outcome.chunks else item.outcome.value
    status = first.get("status") if isinstance(first, Mapping) else None
    return attributes | ({"http.response.status_code": status} if type(status) is int else {})


def _of_stream(item: Interaction, offsets_ms: Sequence[float]) -> Attributes:
    if item.outcome.chunks is None:
        return {}
    attributes: Attributes = {"agenttape.chunks": len(item.outcome.chunks)}
    if item.kind in MODEL_KINDS:
        attributes["gen_ai.request.stream"] = True
        if offsets_ms:
            attributes["gen_ai.response.time_to_first_chunk"] = offsets_ms[0] / 1000
    return attributes
