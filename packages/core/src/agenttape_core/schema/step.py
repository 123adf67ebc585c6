"""What is no boundary but gives a run its shape."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from agenttape_core.schema.interaction import Fidelity
from agenttape_core.schema.outcome import RecordedError
from agenttape_core.schema.record import Record


class Step(Record):
    """Something that happened around interactions: with them, steps make the tree of the run. All of it redacted.

    A step is never served: on replay the program takes it again. It is there to be read.
    """

    number: int
    """1-based among the steps, in the order of the file."""
    kind: str
    """What sort of thing happened: `chain`, `agent`, `node`, `model`, `tool`, `retriever`, `event`, `retry`, …"""
    name: str
    """Which one: the chain, the node, the event."""
    address: str
    """Where in the run tree; for something without a place of its own, that of the run it happened in."""
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    """What the program said of it, as plain data, without what it inherited from around it."""
    status: Literal["ended", "failed", "open"] = "ended"
    """Whether it ended, failed with an error, or had not ended when the recording did."""
    error: RecordedError | None = None
    fidelity: Fidelity = "exact"
    """`missing` for a call that was seen and that no interaction could be made of."""
    fidelity_note: str = ""
    """Why it is missing."""
    input: Any = None
    """What it was given, as plain data: of the outermost runs, as all else follows from replaying them."""
    output: Any = None
    """What it gave, likewise."""
    data: Any = None
    """What an event says, as plain data."""


class StepTiming(Record):
    """When a step happened: volatile, so it is kept in the header and apart from the step."""

    start_ms: float
    """When it began, in milliseconds after the recording did."""
    duration_ms: float
