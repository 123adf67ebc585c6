"""The kinds of interactions, and the words that readers of cassettes and sessions share."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal["chat", "completion", "embeddings", "retrieval", "tool", "node", "memory", "http", "call"]
"""The sorts of boundaries: OpenTelemetry GenAI's words where they exist."""

KINDS: frozenset[str] = frozenset(get_args(Kind))

MODEL_KINDS: frozenset[str] = frozenset({"chat", "completion"})  # the kinds in which a language model answers

PURE_KINDS: frozenset[str] = frozenset({"embeddings"})
"""The kinds whose answer depends on the request alone: one recording answers every equal request, and it may stay
unused."""

FAKED = "faked"
"""The tag of an interaction whose answer comes from a function of the user (`fakes=`), and not from the named model or
tool."""

OWN = "own"
"""The word for the program's own model, called again: the baseline of a candidate."""

UNAVAILABLE = "The tool is not available."
"""The error that a model reads from a tool without a recording: a longer text would bias its next answer."""

HASH_SEED = "PYTHONHASHSEED"  # the environment variable that gives a process its hash seed
