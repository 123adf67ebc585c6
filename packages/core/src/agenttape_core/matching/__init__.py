"""When two requests are the same: canonical form, fingerprint, address, lookup, and the explanation of a miss."""

from agenttape_core.matching.canonical import Canonicaliser, Keyed, Question, canonical_json
from agenttape_core.matching.difference import Difference, differences
from agenttape_core.matching.explain import Candidate, Nearest, nearest
from agenttape_core.matching.ids import IdMap
from agenttape_core.matching.position import (
    Branch,
    Order,
    Position,
    current_branch,
    enter_branch,
    new_branch,
    rank_name,
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
    "IdMap",
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
    "new_branch",
    "rank_name",
    "task_branch",
]
