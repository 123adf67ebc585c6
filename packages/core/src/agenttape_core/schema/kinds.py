"""The kinds of interactions."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal["chat", "completion", "embeddings", "retrieval", "tool", "node", "memory", "http", "call"]
"""The sorts of boundaries: OpenTelemetry GenAI's words where they exist."""

KINDS: frozenset[str] = frozenset(get_args(Kind))

MODEL_KINDS: frozenset[str] = frozenset({"chat", "completion"})
"""The kinds in which a language model answers."""

PURE_KINDS: frozenset[str] = frozenset({"embeddings"})
"""The kinds whose answer is a function of the request alone: one recording answers every equal request, and it is no
failure if nobody asks for it."""
