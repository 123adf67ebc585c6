"""Experiments: a recorded program, run again and again with something varied.

Each experiment is a function of the same shape, `NAME(target, ...)`, and has the same name in `agenttape lab NAME
TARGET` and in `pytest --cassette-lab=NAME`. A strategy is a module of `agenttape_core.experiments.strategies`.
"""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.experiments.engine import drive, independent
    from agenttape_core.experiments.program import Program, Run, program_of
    from agenttape_core.experiments.strategies.bisect import bisect
    from agenttape_core.experiments.strategies.change import change
    from agenttape_core.experiments.strategies.fault_kinds import FaultKind, register_fault
    from agenttape_core.experiments.strategies.faults import afaults, faults
    from agenttape_core.experiments.strategies.flaky import flaky
    from agenttape_core.experiments.strategies.model import model
    from agenttape_core.experiments.strategies.mutants import mutants
    from agenttape_core.experiments.strategies.orders import orders
    from agenttape_core.experiments.strategies.shrink import shrink
    from agenttape_core.experiments.strategies.why import why

__all__ = [
    "FaultKind",
    "Program",
    "Run",
    "afaults",
    "bisect",
    "change",
    "drive",
    "faults",
    "flaky",
    "independent",
    "model",
    "mutants",
    "orders",
    "program_of",
    "register_fault",
    "shrink",
    "why",
]

_HOMES = {
    ".engine": ("drive", "independent"),
    ".program": ("Program", "Run", "program_of"),
    ".strategies.bisect": ("bisect",),
    ".strategies.change": ("change",),
    ".strategies.fault_kinds": ("FaultKind", "register_fault"),
    ".strategies.faults": ("afaults", "faults"),
    ".strategies.flaky": ("flaky",),
    ".strategies.model": ("model",),
    ".strategies.mutants": ("mutants",),
    ".strategies.orders": ("orders",),
    ".strategies.shrink": ("shrink",),
    ".strategies.why": ("why",),
}
"""The module of each name, imported when it's needed."""


__getattr__ = late_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """List the names also before they are imported."""
    return sorted({*globals(), *__all__})
