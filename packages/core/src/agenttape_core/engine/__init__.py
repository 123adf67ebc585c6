"""What happens on a call: (mode, position, request) to serve, execute or refuse. Pure: it touches nothing."""

from agenttape_core.engine.decide import (
    Decision,
    Execute,
    Lossy,
    OnMiss,
    Policy,
    Refuse,
    Serve,
    decide,
    parse_match_on,
)
from agenttape_core.engine.mode import Mode, parse_mode

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
