"""Steps: they aren't boundaries, but give a run its shape."""

from typing import Any, Literal

from pydantic import Field

from agenttape_core.schema.interaction import Fidelity
from agenttape_core.schema.outcome import RecordedError
from agenttape_core.schema.record import Items, Record


class Step(Record):
    """Something that happened around interactions: with them, steps make the tree of the run. All of it redacted.

    A step is never replayed: on replay the program takes it again. It is there to be read.
    """

    number: int
    """1-based among the steps, in the order of the file."""
    kind: str
    """The sort of step: `chain`, `agent`, `node`, `model`, `tool`, `retriever`, `event`, `retry`, …"""
    name: str
    """The name of the chain, the node, the event."""
    address: str
    """The address in the run tree; for a step without one, the address of the run around it."""
    tags: Items[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The program's own facts about it, as plain data, without those that it inherited."""
    status: Literal["ended", "failed", "open"] = "ended"
    """Its state at the end of the recording: it ended, failed with an error, or had not ended."""
    error: RecordedError | None = None
    fidelity: Fidelity = "exact"
    """`missing` for a call that was seen and that no interaction could be made of."""
    fidelity_note: str = ""
    """The reason why it is missing."""
    input: Any = None
    """The input, as plain data: only of the outermost runs, as all else follows from replaying them."""
    output: Any = None
    """The output, as plain data: only of the outermost runs."""
    data: Any = None
    """The content of an event, as plain data."""


class StepTiming(Record):
    """The times of a step: volatile, so they are kept in the header and apart from it."""

    start_ms: float  # the start, in milliseconds after the start of the recording
    duration_ms: float


GAP = "gap"  # the kind of a step for calls that couldn't be observed: its data lists their kinds


def is_gap_of(step: Step, kind: str) -> bool:
    """Return True if a step lists kinds of calls that couldn't be observed."""
    return step.kind == GAP and isinstance(step.data, list) and kind in step.data
