"""MutationScore: the small edits of a program that no cassette would notice."""

from agenttape_core.experiments.strategies.mutants.edits import Mutant
from agenttape_core.experiments.strategies.mutants.result import Judged, MutationScore
from agenttape_core.experiments.strategies.mutants.search import mutants

__all__ = ["Judged", "Mutant", "MutationScore", "mutants"]
