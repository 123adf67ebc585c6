"""Healing: execute only those calls of a run that have changed, and say before what that would take."""

from agenttape_core.tools.heal.budget import Budget
from agenttape_core.tools.heal.healing import heal, plan, refuse_dear
from agenttape_core.tools.heal.plans import PLANNING, Plan, PlannedCall, plan_of, total_of

__all__ = ["PLANNING", "Budget", "Plan", "PlannedCall", "heal", "plan", "plan_of", "refuse_dear", "total_of"]
