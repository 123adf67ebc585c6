"""Interventions: other answers to recorded calls, and the selection of those calls.

Most sessions change no answers, so the changes are imported on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.interventions.damages import Damage, How, damaged, register_damage
from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.interventions.changes import (
        Change,
        GivenOutcome,
        always,
        cut,
        edits,
        late,
        once,
        raises,
        returns,
    )
    from agenttape_core.interventions.on_new_call import ASKING, OnNewCall, checked_on_new_call, policy_after_change
    from agenttape_core.interventions.placing import Changes, Placed, placed

__all__ = [
    "ASKING",
    "Change",
    "Changes",
    "Damage",
    "GivenOutcome",
    "How",
    "OnNewCall",
    "Placed",
    "always",
    "checked_on_new_call",
    "cut",
    "damaged",
    "edits",
    "late",
    "once",
    "placed",
    "policy_after_change",
    "raises",
    "register_damage",
    "returns",
]

_HOMES = {
    ".changes": ("Change", "GivenOutcome", "always", "cut", "edits", "late", "once", "raises", "returns"),
    ".on_new_call": ("ASKING", "OnNewCall", "checked_on_new_call", "policy_after_change"),
    ".placing": ("Changes", "Placed", "placed"),
}
"""The module of each name that is imported on demand."""

__getattr__ = late_names(__name__, _HOMES)
