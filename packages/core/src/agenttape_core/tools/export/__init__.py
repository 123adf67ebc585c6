"""Exports of cassettes for other tools: JSON, JSON lines, OpenTelemetry spans."""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agenttape_core.errors import ConfigurationError, ExportError
from agenttape_core.schema import MODEL_KINDS, Interaction
from agenttape_core.storage import Cassette
from agenttape_core.tools.export.attributes import Attributes, Placed, placed_in
from agenttape_core.tools.export.spans import Span, spans_in, spans_of
from agenttape_core.tools.reading.messages import Answer
from agenttape_core.tools.reading.summary import model_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Tracer

__all__ = ["VERSION", "Collector", "Span", "otlp_lines", "otlp_parts", "rows_of", "spans_in", "spans_of"]


# -- Spans of the OpenTelemetry SDK, written to a file or sent to a collector. Needs the extra `otel`. The SDK makes the
# spans, through a separate provider: the tracing of the process isn't touched.


EXTRA = "exporting to OpenTelemetry needs its SDK and its OTLP exporter\n  pip install 'agenttape-core[otel]'"
ENVIRONMENT = "env"  # the endpoint that the SDK's environment variables name

_SCOPE = "agenttape"
_PATH = "/v1/traces"
_BATCH = 512  # the number of spans in a request to a collector, as in the SDK's own batches
_INSTANCE = "service.instance.id"
_IDS = ("traceId", "spanId", "parentSpanId")
_PLACE = '"spans": []'
"""The place of the spans in the JSON around them: no text in it can look like this, as quotes in texts are escaped."""
_MAX_INT = 2**63


def otlp_lines(spans: Iterable[Span]) -> Iterator[str]:
    """Yield lines of OTLP/JSON, as a collector's file exporter writes them; see `otlp_parts`."""
    yield "".join(otlp_parts(spans))


def otlp_parts(
    spans: Iterable[Span], shown: Callable[[dict[str, Any]], dict[str, Any]] = lambda data: data
) -> Iterator[str]:
    """Yield the parts of a line of OTLP/JSON, so that a long trace is never in memory as a whole.

    The encoding is of https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hex, enumerations are
    numbers. The spans of all parts have the same resource and scope, which are around them once.

    Args:
        spans: The spans of a trace, each after its parent; at least one.
        shown: Returns the written form of data.

    Raises:
        ConfigurationError: If the extra is not installed.
    """
    _check_extra()
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped] # its types are a package more
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    made, after = sdk_spans(spans), ""
    while batch := [*islice(made, _BATCH)]:
        message = MessageToDict(encode_spans(batch), use_integers_for_enums=True)
        scope = message["resourceSpans"][0]["scopeSpans"][0]
        found, scope["spans"] = scope["spans"], []
        if not after:
            before, place, after = json.dumps(shown(message)).partition(_PLACE)
            yield f"{before}{place.removesuffix(']')}"
        else:
            yield ", "
        for span in found:
            span.update({key: base64.b64decode(span[key]).hex() for key in _IDS if key in span})
        yield ", ".join(json.dumps(shown(span)) for span in found)
    yield f"]{after}"


class Collector:
    """A collector that takes spans over OTLP/HTTP.

    Args:
        endpoint: Its URL, to which the path of traces is added if it has none; `env` for the endpoint that the SDK's
            environment variables name. They also set headers, certificates, the timeout and the compression.

    Raises:
        ConfigurationError: If the extra isn't installed, or the endpoint isn't a URL.
    """

    url: str
    """The endpoint, without a password."""

    def __init__(self, endpoint: str) -> None:
        _check_extra()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        url = _url_of(endpoint)
        self.url = _without_password(url)
        self._exporter = OTLPSpanExporter(endpoint=None if endpoint == ENVIRONMENT else url)

    def send(self, spans: Iterable[Span]) -> int:
        """Send spans, wait for their arrival, and return their number.

        Raises:
            ExportError: If the collector cannot be reached, or does not take them.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult

        made, count = sdk_spans(spans), 0
        with _sdk_messages() as messages:
            while batch := [*islice(made, _BATCH)]:
                if self._exporter.export(batch) is not SpanExportResult.SUCCESS:
                    raise ExportError(self.url, "; ".join(messages[-2:]) or "the SDK gives no reason")
                count += len(batch)
        return count

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call] # the SDK's


def sdk_spans(spans: Iterable[Span]) -> Iterator[ReadableSpan]:
    """Yield our spans as the SDK's, parents first; none is kept. Raises `ConfigurationError` if it's switched off."""
    tracer, ids = _tracer()
    for span in spans:
        ids.current = span
        made = _started(tracer, span)
        if not made.is_recording():
            raise ConfigurationError("the OpenTelemetry SDK is switched off\n  unset OTEL_SDK_DISABLED")
        made.end(span.end_ns)
        yield made


def _tracer() -> tuple[Tracer, Any]:
    """Return a tracer and its source of ids, which returns the ids of the `current` span."""
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    class Ids(IdGenerator):
        """Gives spans the ids that they already have."""

        current: Span

        def generate_trace_id(self) -> int:
            return self.current.trace_id

        def generate_span_id(self) -> int:
            return self.current.span_id

    ids, unlimited = Ids(), SpanLimits(*[SpanLimits.UNSET] * 8)
    provider = TracerProvider(ALWAYS_ON, _resource(), shutdown_on_exit=False, id_generator=ids, span_limits=unlimited)
    return provider.get_tracer(_SCOPE, version("agenttape-core")), ids


def _started(tracer: Tracer, span: Span) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, Status, StatusCode

    made = tracer.start_span(
        span.name,
        context=Context() if span.parent_id is None else _inside(span.trace_id, span.parent_id),
        kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
        attributes=_sendable(span.attributes),
        start_time=span.start_ns,
    )
    for moment in span.moments:
        made.add_event(moment.name, _sendable(moment.attributes), moment.at_ns)
    if span.error is not None:
        made.set_status(Status(StatusCode.ERROR, span.error))
    return made


def _inside(trace_id: int, span_id: int) -> Context:
    """Return a context in which a span is the current one; only the ids of the span are needed."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    sampled = TraceFlags(TraceFlags.SAMPLED)
    parent = NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=False, trace_flags=sampled))
    return set_span_in_context(parent, Context())


def _sendable(attributes: Attributes) -> Attributes:
    """Return attributes whose integers OTLP can hold."""
    is_large = {
        name: isinstance(value, int) and not -_MAX_INT <= value < _MAX_INT for name, value in attributes.items()
    }
    return {name: str(value) if is_large[name] else value for name, value in attributes.items()}


def _resource() -> Resource:
    """Return the service that the environment describes, without the id that is drawn for each process."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    attributes = dict(Resource.create().attributes)
    if _INSTANCE not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        attributes.pop(_INSTANCE, None)
    if str(attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        attributes[SERVICE_NAME] = _SCOPE
    return Resource(attributes)


def _url_of(endpoint: str) -> str:
    """Return the URL of an endpoint: to be printed, and if the user named it, also to be called."""
    if endpoint == ENVIRONMENT:
        base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
        endpoint = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or (base and f"{base.rstrip('/')}{_PATH}")
        if not endpoint:
            raise ConfigurationError(
                "the environment names no endpoint\n"
                "  set OTEL_EXPORTER_OTLP_ENDPOINT, or name one: --endpoint http://localhost:4318"
            )
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ConfigurationError(
            f"--endpoint {endpoint}: expected the URL of an OTLP/HTTP endpoint, such as http://localhost:4318"
        )
    return endpoint if parts.path.strip("/") else parts._replace(path=_PATH).geturl()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@contextmanager
def _sdk_messages() -> Iterator[list[str]]:
    """Collect the exporter's log of a failure: its result doesn't include the reason."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("opentelemetry.exporter.otlp")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _check_extra() -> None:
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401 - are both installed?
    except ImportError:
        raise ConfigurationError(EXTRA) from None


# -- A cassette as JSON: rows with all that is recorded, independent of the storage format.


VERSION = 1
"""The version of the shape of the rows."""
_OF_RECORDS = {"timings", "steps"}  # the parts of the header that repeat the rows of the records


def rows_of(cassette: Cassette) -> Iterator[dict[str, Any]]:
    """Yield a row for the header, then one for each record, in the order of the file.

    Requests are whole, and large binary parts are inserted. The key of the redaction is left out: its only use is to
    guess at secrets.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    left_out = {"redaction": {"key"}, "volatile": _OF_RECORDS}
    header = cassette.header.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    volatile = header.pop("volatile", {})
    facts = {key: item for key, item in {**header, **volatile}.items() if item}
    yield {"record": "header", "export": VERSION, **facts}
    yield from map(_row, placed_in(cassette))


def _row(placed: Placed) -> dict[str, Any]:
    record = placed.record
    sort = "interaction" if isinstance(record, Interaction) else "step"
    fields = record.model_dump(mode="json", exclude_defaults=True, exclude={"parent"})
    row = {"record": sort, "id": placed.id, "parent": placed.parent, **fields}
    row |= {"start_ms": placed.start_ms, "duration_ms": placed.duration_ms}
    if not isinstance(record, Interaction):
        return row
    if placed.offsets_ms:
        row["offsets_ms"] = list(placed.offsets_ms)
    if (model := model_of(record)) is not None:
        row["model"] = model
    if record.kind in MODEL_KINDS:
        row["answer"] = Answer(record.outcome).messages
    return row
