"""Spans of traces, as OpenTelemetry's exporters and tools over it write them, read as plain data.

Three shapes hold the same: OTLP/JSON, as a collector's file exporter writes it
(https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), with names in camel case or as protobuf has them;
the JSON of the Python SDK's console exporter; and lists of spans as tracing tools export them, with attributes by
dotted names or nested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError
from agenttape_core.integration.importing.foreign_files import expect_list, expect_mapping, malformed

_NS = 1_000_000_000
_RESOURCES = ("resourceSpans", "resource_spans")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_VALUES = {
    "stringValue": str, "intValue": int, "doubleValue": float, "boolValue": bool, "bytesValue": str,
    "string_value": str, "int_value": int, "double_value": float, "bool_value": bool, "bytes_value": str,
}  # fmt: skip
_FAILED = frozenset({2, "2", "ERROR", "STATUS_CODE_ERROR"})
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Span:
    """A span.

    Args:
        id: Its id, in whatever form the file has it.
        parent: The id of the span around it; empty for an outermost one.
        name: Its name.
        start_ns: Its start: nanoseconds since the epoch; 0 if unknown.
        end_ns: Its end.
        attributes: Its attributes by their dotted names.
        events: Its events: the name of each, and its attributes.
        error: The description of its failure, perhaps empty; None if it did not fail.
    """

    id: str
    parent: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    error: str | None = None

    @property
    def duration_ms(self) -> float:
        """Its duration in milliseconds; 0 if it is not known."""
        return max(0, self.end_ns - self.start_ns) / 1e6 if self.start_ns else 0.0

    def text(self, *names: str) -> str:
        """Return the first of some attributes that is a text, or the empty text."""
        return next((value for name in names if isinstance(value := self.attributes.get(name), str)), "")

    def structured(self, name: str) -> Any:
        """Return an attribute with a structure, which spans mostly hold as JSON in a text; None if there is none."""
        value = self.attributes.get(name)
        return parsed(value) if isinstance(value, str) else value


def parsed(text: str) -> Any:
    """Return the value of a JSON text, or the text itself if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def spans_of(path: Path, data: Any) -> list[Span]:
    """Return the spans of a file, in the order in which they began; equal ones in the order of the file.

    Raises `CassetteFormatError` if it holds no spans, or a span is malformed.
    """
    try:
        spans = [_span(path, where, plain) for where, plain in _plain_spans(path, data)]
    except RecursionError:
        raise malformed(path, "an attribute", "a value that is not nested so deep", {}) from None
    if not spans:
        raise CassetteFormatError(
            path, "there are no spans in it", remedy="export the trace with its spans, as OTLP/JSON"
        )
    return sorted(spans, key=lambda span: span.start_ns)


def _plain_spans(path: Path, data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    documents = data if isinstance(data, list) else [data]
    for number, document in enumerate(documents):
        plain = expect_mapping(path, f"[{number}]", document)
        resources = _first(plain, _RESOURCES)
        if resources is None:
            yield from _listed(path, f"[{number}]", plain)
            continue
        for at, resource in enumerate(expect_list(path, "resourceSpans", resources)):
            where = f"[{number}].resourceSpans[{at}]"
            for scope in expect_list(path, where, _first(expect_mapping(path, where, resource), _SCOPES) or []):
                yield from _listed(path, where, expect_mapping(path, where, scope))


def _listed(path: Path, where: str, plain: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the spans of a scope, or the span itself."""
    listed = plain.get("spans", plain.get("data"))
    for number, span in enumerate(expect_list(path, where, listed) if isinstance(listed, list) else [plain]):
        yield f"{where}[{number}]", expect_mapping(path, f"{where}[{number}]", span)


def _span(path: Path, where: str, plain: dict[str, Any]) -> Span:
    context = plain["context"] if isinstance(plain.get("context"), dict) else plain
    own = _first(context, ("spanId", "span_id"))
    if not isinstance(own, str) or not own or ("attributes" not in plain and "name" not in plain):
        raise malformed(path, where, "a span with an id and a name", own)
    parent = _first(plain, ("parentSpanId", "parent_span_id", "parent_id"))
    attributes = {} if plain.get("attributes") is None else plain["attributes"]
    status = plain.get("status") if isinstance(plain.get("status"), dict) else {}
    code = _first(status or {}, ("code", "status_code")) or plain.get("status_code")
    message = _first(status or {}, ("message", "description")) or plain.get("status_message") or ""
    return Span(
        own,
        parent if isinstance(parent, str) else "",
        str(plain.get("name") or "span"),
        _nanoseconds(_first(plain, ("startTimeUnixNano", "start_time_unix_nano", "start_time"))),
        _nanoseconds(_first(plain, ("endTimeUnixNano", "end_time_unix_nano", "end_time"))),
        _attributes(path, f"{where}.attributes", attributes),
        [_event(path, f"{where}.events", event) for event in plain.get("events") or ()],
        str(message) if code in _FAILED else None,
    )


def _event(path: Path, where: str, plain: Any) -> tuple[str, Mapping[str, Any]]:
    event = expect_mapping(path, where, plain)
    return str(event.get("name")), _attributes(path, where, event.get("attributes") or {})


def _attributes(path: Path, where: str, plain: Any) -> dict[str, Any]:
    """Return attributes by their dotted names, of a list of pairs, or of a mapping that may be nested."""
    if isinstance(plain, dict):
        return dict(_flat("", plain, 0))
    pairs = [expect_mapping(path, where, pair) for pair in expect_list(path, where, plain)]
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}


def _flat(prefix: str, plain: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested attributes; a list of texts or numbers is one, as in OpenTelemetry."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(plain, dict) and plain:
        for key, item in plain.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item, depth + 1)
    elif isinstance(plain, list) and any(isinstance(item, dict) for item in plain):
        for number, item in enumerate(plain):
            yield from _flat(f"{prefix}.{number}", item, depth + 1)
    elif prefix:
        yield prefix, plain


def _value(plain: Any, depth: int = 0) -> Any:
    """Return a value of OTLP: a mapping that contains its type."""
    if depth > _DEEPEST:
        raise RecursionError
    if not isinstance(plain, dict):
        return plain
    for key, cls in _VALUES.items():
        if key in plain:
            return _scalar(plain[key], cls)
    array, pairs = _first(plain, ("arrayValue", "array_value")), _first(plain, ("kvlistValue", "kvlist_value"))
    if isinstance(array, dict):
        return [_value(item, depth + 1) for item in array.get("values") or ()]
    if isinstance(pairs, dict):
        listed = [pair for pair in pairs.get("values") or () if isinstance(pair, dict)]
        return {str(pair.get("key")): _value(pair.get("value"), depth + 1) for pair in listed}
    return None


def _scalar(value: Any, cls: type) -> Any:
    """Return a number that JSON holds as a text, as protobuf's mapping requires for 64 bits."""
    if cls in (int, float) and isinstance(value, str):
        try:
            return cls(value)
        except ValueError:
            return value
    return value


def _nanoseconds(value: Any) -> int:
    if isinstance(value, bool) or value is None:
        return 0
    if isinstance(value, int):
        return value
    try:
        return int(value) if str(value).isdigit() else _of_iso(str(value))
    except (ValueError, OverflowError):
        return 0


def _of_iso(text: str) -> int:
    time = datetime.fromisoformat(text)
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * _NS)


def _first(plain: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((plain[name] for name in names if plain.get(name) is not None), None)
