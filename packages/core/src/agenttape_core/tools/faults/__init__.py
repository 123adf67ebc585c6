"""Faults: each recorded call of a run fails once in each way that the real world has, offline."""

from agenttape_core.tools.faults.cells import Target
from agenttape_core.tools.faults.kinds import FaultKind, chosen_kinds, register_fault
from agenttape_core.tools.faults.matrix import Cell, FaultMatrix, lines_of
from agenttape_core.tools.faults.running import afaults, faults

__all__ = [
    "Cell",
    "FaultKind",
    "FaultMatrix",
    "Target",
    "afaults",
    "chosen_kinds",
    "faults",
    "lines_of",
    "register_fault",
]
