"""The short line beside each record in the page's tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttape_core.schema import MODEL_KINDS, Interaction, Step
from agenttape_core.tools.reading.answer import Answer

_SHORT = 140
_LONG = 4 * _SHORT


def summary(record: Interaction | Step) -> str:
    """Return a record as one short line: its error, its answer, or what was asked and returned."""
    if record.error is not None if isinstance(record, Step) else record.outcome.error is not None:
        error = record.error if isinstance(record, Step) else record.outcome.error
        assert error is not None
        return _line(f"{error.type.rpartition(':')[2]}: {error.message}")
    if isinstance(record, Step):
        return _line(_inline(record.data)) if record.kind == "event" and record.data is not None else ""
    if record.outcome.status == "cancelled":
        return " → ".join(["cancelled", *filter(None, [_line(_answered(Answer(record.outcome)))])])
    if record.outcome.status == "refused":
        return _line(f"refused → {record.outcome.value}")
    if record.kind in MODEL_KINDS:
        return _line(_answered(Answer(record.outcome)))
    given = record.request.get("arguments", record.request.get("input", record.request))
    value = record.outcome.value if record.kind != "embeddings" else None
    return " → ".join(filter(None, [_line(_inline(given)), _line(_inline(value)) if value is not None else ""]))


def _answered(answer: Answer) -> str:
    calls = [f"{call.name}({_inline(call.args)})" for call in answer.tool_calls]
    return " ".join(filter(None, [answer.text, *calls]))


def _inline(given: Any) -> str:
    """Return a value as a person would write it in a call, cut where it gets long."""
    if isinstance(given, dict):
        return _joined(f"{key}={_inline(value)}" for key, value in given.items())
    if isinstance(given, list):
        return f"[{_joined(map(_inline, given))}]"
    return given[:_SHORT] if isinstance(given, str) else str(given)


def _joined(texts: Iterator[str]) -> str:
    joined = ""
    for text in texts:
        joined = f"{joined}, {text}" if joined else text
        if len(joined) > _SHORT:
            break
    return joined


def _line(text: str) -> str:
    line = " ".join(text[:_LONG].split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}…"
