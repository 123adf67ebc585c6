"""Recordings of the shape of a run without its content: its calls, but not their texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from agenttape_core.errors import CassetteFormatError
from agenttape_core.matching import Ignored, Order, recorded_request
from agenttape_core.schema import GAP, Header, Interaction, Outcome, Plain, RecordedError, Step, StepTiming, Timing
from agenttape_core.session import Sink
from agenttape_core.storage import Location

Payload = Literal["full", "none"]
"""The part of calls that is recorded: all of it, or their shape alone."""

_NOTE = "its content was not recorded: payload='none'"
_LEFT_OUT = "left_out"


class WithoutContent:
    """Keeps kinds, names, places, times, endings and tokens of calls, and none of their texts."""

    def __init__(self, sink: Sink, ignored: Ignored) -> None:
        self._sink = sink
        self._ignored = ignored

    def append(self, interaction: Interaction, timing: Timing, order: Order, *, has_begun: bool = False) -> None:
        """Keep the shape of an interaction."""
        request = _request(interaction.request)
        fingerprint = recorded_request(interaction.kind, interaction.name, request, self._ignored).fingerprint
        shape = interaction.model_copy(
            update={
                "fingerprint": fingerprint,
                "ids": [],
                "tags": [],
                "metadata": {},
                "fidelity": "lossy",
                "fidelity_note": _NOTE,
                "acts": None,
                "request": request,
                "outcome": _outcome(interaction.outcome),
            }
        )
        times = timing.model_copy(update={"offsets_ms": timing.offsets_ms[:1], "nonce": "", "moment": None})
        self._sink.append(shape, times, order, has_begun=has_begun)

    def append_step(self, step: Step, timing: StepTiming, order: Order) -> None:
        """Keep the shape of a step."""
        if step.kind == GAP:  # it is about the observer
            self._sink.append_step(step, timing, order)
            return
        gone: dict[str, Any] = {"tags": [], "metadata": {}, "input": None, "output": None, "data": None}
        note = _NOTE if step.fidelity_note else ""
        self._sink.append_step(
            step.model_copy(update={**gone, "fidelity_note": note, "error": _error(step.error)}), timing, order
        )


def refuse_shape(path: Location, header: Header) -> None:
    """Refuse to replay a recording without content. Raises `CassetteFormatError` if it is one."""
    if header.payload != "full":
        raise CassetteFormatError(
            path,
            f"it was recorded with payload={header.payload!r}: it holds the shape of a run, and nothing to replay",
            remedy="record with payload='full', the default, what is to be replayed",
        )


def _request(request: Mapping[str, Plain]) -> dict[str, Plain]:
    """Return the model, the names of the tools offered, and the size of a request in bytes of JSON."""
    kept: dict[str, Plain] = {}
    if isinstance(request.get("model"), str):
        kept["model"] = request["model"]
    tools = request.get("tools")
    if isinstance(tools, list) and (named := list(_named(tools))):
        kept["tools"] = named
    return {**kept, _LEFT_OUT: _size(request)}


def _named(tools: Iterable[Any]) -> Iterable[Plain]:
    """Yield tools by their names, in the forms in which providers name them."""
    for tool in tools:
        inner = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            yield {"type": "function", "function": {"name": inner["name"]}}
        elif isinstance(tool, dict) and isinstance(tool.get("name"), str):
            yield {"name": tool["name"]}


def _outcome(outcome: Outcome) -> Outcome:
    """Return how a call ended, its tokens, and the size of its answer."""
    is_value = outcome.status == "returned"
    return outcome.model_copy(
        update={
            "value": {_LEFT_OUT: _size(outcome.value)} if is_value else "" if outcome.status == "refused" else None,
            "chunks": [] if outcome.chunks is not None else None,
            "error": _error(outcome.error),
            "effects": [],
            "arguments": {},
        }
    )


def _error(error: RecordedError | None) -> RecordedError | None:
    """Return the class of an error, without its words."""
    return RecordedError(type=error.type, message="", bases=error.bases) if error is not None else None


def _size(value: Plain) -> int:
    return len(json.dumps(value, default=str))
