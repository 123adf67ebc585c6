"""Exports of cassettes for other tools: JSON, JSON lines, OpenTelemetry spans."""

from agenttape_core.tools.export.opentelemetry import VERSION, Collector, otlp_lines, otlp_parts, rows_of
from agenttape_core.tools.export.spans import Span, spans_in, spans_of

__all__ = ["VERSION", "Collector", "Span", "otlp_lines", "otlp_parts", "rows_of", "spans_in", "spans_of"]
