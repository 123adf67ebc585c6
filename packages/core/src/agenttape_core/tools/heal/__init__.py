"""Healing: execute only those calls of a run that have changed, and say before what that would take."""

from agenttape_core.tools.heal.healing import heal, plan
from agenttape_core.tools.heal.plans import Plan, PlannedCall

__all__ = ["Plan", "PlannedCall", "heal", "plan"]
