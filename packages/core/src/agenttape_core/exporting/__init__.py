"""A cassette as other tools read it: JSON, JSON lines, OpenTelemetry spans."""

from agenttape_core.exporting.documents import VERSION, rows_of
from agenttape_core.exporting.opentelemetry import Collector, otlp_lines
from agenttape_core.exporting.spans import Span, spans_of

__all__ = ["VERSION", "Collector", "Span", "otlp_lines", "rows_of", "spans_of"]
