"""Healing: execute only those calls of a run that have changed, and say before what that would take."""

from agenttape_core.tools.update.plans import Plan, PlannedCall
from agenttape_core.tools.update.updating import plan, update

__all__ = ["Plan", "PlannedCall", "plan", "update"]
