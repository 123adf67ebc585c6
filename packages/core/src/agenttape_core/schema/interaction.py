"""One boundary crossing."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field

from agenttape_core.schema.outcome import Outcome
from agenttape_core.schema.record import Record

Kind = Literal["chat", "completion", "embeddings", "retrieval", "tool", "node", "memory", "http", "call"]
"""The sorts of boundaries: OpenTelemetry GenAI's words where they exist."""

KINDS: frozenset[str] = frozenset(get_args(Kind))

Fidelity = Literal["exact", "lossy", "missing"]
"""How well a record holds what happened: all of it; something like it; nothing but that it happened."""


class Interaction(Record):
    """One boundary crossing: what was asked, where, and what came back. All of it redacted."""

    number: int
    """1-based, in the order of the file."""
    kind: str
    """What was crossed: one of `KINDS`, unless an integration has invented another."""
    name: str
    """Which one: the class of the model, the name of the tool."""
    address: str
    """Where it was asked: the structural path in the run tree."""
    fingerprint: str
    """What was asked: the hash of the canonical request."""
    parent: int | None = None
    """The number of the interaction that was executing when this one was asked."""
    ids: list[str] = Field(default_factory=list)
    """The run-specific ids of the request, in order of first appearance."""
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    """What the program said of the call besides its request, as plain data."""
    fidelity: Literal["exact", "lossy"] = "exact"
    """Whether its outcome is what came back. A lossy one is not served unless the session is told to."""
    fidelity_note: str = ""
    """What is lost of it, and why; empty when it is exact."""
    request: dict[str, Any]
    """The request as plain data, continuations resolved."""
    outcome: Outcome


class Timing(Record):
    """When things happened: volatile, so it is kept in the header and apart from the interaction."""

    start_ms: float | None = None
    """When the call began, in milliseconds after the recording did. Nothing where nobody knows: of a call that was
    recorded by another tool, was added to an earlier recording, or was served and written once more."""
    duration_ms: float
    offsets_ms: list[float] = Field(default_factory=list)
    """For a stream: when each chunk arrived, in milliseconds after the call. The first one is the TTFT."""
