"""The results of experiments and comparisons, by name: for annotations and `isinstance`."""

from typing import TYPE_CHECKING

from agenttape_core.schema.late_names import late_names as _late_names

if TYPE_CHECKING:
    from agenttape_core.experiments.strategies.bisect import Bisection
    from agenttape_core.experiments.strategies.change import Changed
    from agenttape_core.experiments.strategies.faults import Cell, FaultMatrix
    from agenttape_core.experiments.strategies.flaky import FlakyParts
    from agenttape_core.experiments.strategies.mutants import Mutant, MutationScore
    from agenttape_core.experiments.strategies.order_search import Exploration
    from agenttape_core.experiments.strategies.shrink import Shrunk
    from agenttape_core.experiments.strategies.trials import Trials
    from agenttape_core.experiments.strategies.why import Edge, Flow, Why
    from agenttape_core.experiments.verify import Verification
    from agenttape_core.experiments.what_if import WhatIf
    from agenttape_core.lifecycle.replay_source import SourceReplay
    from agenttape_core.tools.compare import Compared, Comparison

__all__ = [
    "Bisection",
    "Cell",
    "Changed",
    "Compared",
    "Comparison",
    "Edge",
    "Exploration",
    "FaultMatrix",
    "FlakyParts",
    "Flow",
    "Mutant",
    "MutationScore",
    "Shrunk",
    "SourceReplay",
    "Trials",
    "Verification",
    "WhatIf",
    "Why",
]

_HOMES = {
    "..experiments.strategies.bisect": ("Bisection",),
    "..experiments.strategies.change": ("Changed",),
    "..experiments.strategies.faults": ("Cell", "FaultMatrix"),
    "..experiments.strategies.flaky": ("FlakyParts",),
    "..experiments.strategies.trials": ("Trials",),
    "..experiments.strategies.mutants": ("Mutant", "MutationScore"),
    "..experiments.strategies.order_search": ("Exploration",),
    "..experiments.strategies.shrink": ("Shrunk",),
    "..experiments.strategies.why": ("Edge", "Flow", "Why"),
    "..experiments.verify": ("Verification",),
    "..experiments.what_if": ("WhatIf",),
    "..lifecycle.replay_source": ("SourceReplay",),
    "..tools.compare": ("Compared", "Comparison"),
}
"""The module of each name, imported when it's needed."""


__getattr__ = _late_names(__name__, _HOMES)
