"""Other orders of the answers to calls that overlap: which of them change the outcome of a program."""

from agenttape_core.tools.explore.result import Call, Exploration, Finding
from agenttape_core.tools.explore.steps import ORDERS, SEED, Program, explore, explored, outcomes_in_other_orders

__all__ = [
    "ORDERS",
    "SEED",
    "Call",
    "Exploration",
    "Finding",
    "Program",
    "explore",
    "explored",
    "outcomes_in_other_orders",
]
