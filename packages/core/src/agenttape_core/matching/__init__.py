"""When two requests are the same: canonical form, fingerprint, address, lookup, and the explanation of a miss."""

from agenttape_core.matching.canonical import Canonicaliser, Keyed, Question, canonical_json, substitute_ids
from agenttape_core.matching.difference import Difference, differences
from agenttape_core.matching.explain import Candidate, Nearest, nearest
from agenttape_core.matching.position import (
    Branch,
    Order,
    Position,
    current_branch,
    enter_branch,
    task_branch,
)
from agenttape_core.matching.recordings import Exhausted, Found, Recordings, Rung

__all__ = [
    "Branch",
    "Candidate",
    "Canonicaliser",
    "Difference",
    "Exhausted",
    "Found",
    "Keyed",
    "Nearest",
    "Order",
    "Position",
    "Question",
    "Recordings",
    "Rung",
    "canonical_json",
    "current_branch",
    "differences",
    "enter_branch",
    "nearest",
    "substitute_ids",
    "task_branch",
]
