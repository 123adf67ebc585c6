"""The decision on a call: serve, run through, execute or refuse. Pure: it reads nothing and marks nothing."""

from agenttape_core.engine.decide import Decision, Execute, Refuse, Serve, StepInto, decide
from agenttape_core.engine.mode import Mode, parse_mode
from agenttape_core.engine.policy import IDEMPOTENT, Lossy, OnMiss, Policy, parse_match_on

__all__ = [
    "IDEMPOTENT",
    "Decision",
    "Execute",
    "Lossy",
    "Mode",
    "OnMiss",
    "Policy",
    "Refuse",
    "Serve",
    "StepInto",
    "decide",
    "parse_match_on",
    "parse_mode",
]
