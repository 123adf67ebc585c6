"""Exports of cassettes for other tools: JSON, JSON lines, OpenTelemetry spans."""

from agenttape_core.tools.export.documents import VERSION, rows_of
from agenttape_core.tools.export.opentelemetry import Collector, otlp_lines
from agenttape_core.tools.export.spans import Span, spans_of

__all__ = ["VERSION", "Collector", "Span", "otlp_lines", "rows_of", "spans_of"]
