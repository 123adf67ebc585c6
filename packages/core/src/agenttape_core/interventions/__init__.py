"""Interventions: what is to come of recorded calls instead of what was recorded, and which calls those are."""

from agenttape_core.interventions.beyond import ASKING, Beyond, checked_beyond, departed
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
from agenttape_core.interventions.damages import Damage, How, damaged, register_damage
from agenttape_core.interventions.placing import Changes, Key, Placed, placed

__all__ = [
    "ASKING",
    "Beyond",
    "Change",
    "Changes",
    "Damage",
    "GivenOutcome",
    "How",
    "Key",
    "Placed",
    "always",
    "checked_beyond",
    "cut",
    "damaged",
    "departed",
    "edits",
    "late",
    "once",
    "placed",
    "raises",
    "register_damage",
    "returns",
]
