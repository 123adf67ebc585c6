"""The decision on a call: serve, execute or refuse. Pure: it reads nothing and marks nothing."""

from agenttape_core.engine.decide import Decision, Execute, Refuse, Serve, decide
from agenttape_core.engine.mode import Mode, parse_mode
from agenttape_core.engine.policy import Lossy, OnMiss, Policy, parse_match_on

__all__ = [
    "Decision",
    "Execute",
    "Lossy",
    "Mode",
    "OnMiss",
    "Policy",
    "Refuse",
    "Serve",
    "decide",
    "parse_match_on",
    "parse_mode",
]
