"""Decide what happens on a call: replay it, step into it, execute it or refuse it. Pure, without side effects.

A module is imported when something of it is: a command that shows a cassette needs few of them.
"""

import sys
from typing import TYPE_CHECKING

from agenttape_core.on_demand import LatePackage
from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.engine.decide import Decision, Execute, Refuse, Replay, StepInto, decide
    from agenttape_core.engine.mode import Mode, parse_mode
    from agenttape_core.engine.policy import IDEMPOTENT, OnMiss, Policy, parse_match_on

__all__ = [
    "IDEMPOTENT",
    "Decision",
    "Execute",
    "Mode",
    "OnMiss",
    "Policy",
    "Refuse",
    "Replay",
    "StepInto",
    "decide",
    "parse_match_on",
    "parse_mode",
]

__getattr__ = late_names(
    __name__,
    {
        ".decide": ("Decision", "Execute", "Refuse", "Replay", "StepInto", "decide"),
        ".mode": ("Mode", "parse_mode"),
        ".policy": ("IDEMPOTENT", "OnMiss", "Policy", "parse_match_on"),
    },
)

sys.modules[__name__].__class__ = LatePackage  # `decide` is a submodule, too
