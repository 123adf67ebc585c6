"""One boundary call."""

from typing import Annotated, Any, Literal

from pydantic import Field

from agenttape_core.schema.outcome import Outcome
from agenttape_core.schema.record import Items, Record

Fidelity = Literal["exact", "lossy", "missing"]
"""The completeness of a record: all that happened; an approximation; only the fact that it happened."""

BEFORE_MOMENTS, AFTER_MOMENTS = -6.2e10, 2.5e11
Moment = Annotated[float, Field(gt=BEFORE_MOMENTS, lt=AFTER_MOMENTS)]
"""A time in seconds since the epoch: one that a date in any time zone can hold."""


class SideEffect(Record):
    """One side effect of a call's code outside the process. Redacted."""

    what: str  # the side effect in words: `wrote report.md`
    at: str = ""
    """The line of the program that did it, as `desk/tools.py:41`; empty where it is not known."""


class Interaction(Record):
    """One boundary call: the request, its address, and the outcome. All of it redacted."""

    number: int
    """1-based, in the order of the file."""
    kind: str
    """The sort of boundary: one of `KINDS`, unless an integration has invented another."""
    name: str
    """The name of the boundary: the class of the model, the name of the tool."""
    address: str
    """The structural path of the call in the run tree."""
    fingerprint: str
    """The hash of the canonical request."""
    parent: int | None = None
    """The number of the interaction that was executing around this one."""
    ids: Items[str] = Field(default_factory=list)
    """The run-specific ids of the request, in order of first appearance."""
    tags: Items[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The program's own facts about the call, as plain data; no part of the request."""
    fidelity: Literal["exact", "lossy"] = "exact"
    """True if it has an outcome that was returned. A lossy one is replayed only if the session allows it."""
    fidelity_note: str = ""
    """The part that is lost, and the reason; empty for an exact one."""
    acts: Items[SideEffect] | None = None
    """The side effects of its code outside the process, without those of inner calls; empty if there were none, and
    `None` if they weren't watched."""
    request: dict[str, Any]
    """The request as plain data, continuations resolved."""
    outcome: Outcome


class Timing(Record):
    """The times of an interaction: volatile, so they are kept in the header and apart from it."""

    start_ms: float | None = None
    """The start of the call, in milliseconds after the start of the recording. `None` if not known: for a call that was
    recorded by another tool, was added to an earlier recording, or was replayed and written once more."""
    duration_ms: float
    offsets_ms: Items[float] = Field(default_factory=list)
    """For a stream: the arrival of each chunk, in milliseconds after the call began. The first one is the TTFT."""
    moment: Moment | None = None  # the moment at which the code of a tool began, by its own clock
    nonce: str = ""  # a text that no other recording has, of which the ids in the code of a tool were made
