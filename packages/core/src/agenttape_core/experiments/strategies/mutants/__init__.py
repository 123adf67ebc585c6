"""Adequacy: the small edits of a program that no cassette would notice."""

from agenttape_core.experiments.strategies.mutants.edits import Mutant
from agenttape_core.experiments.strategies.mutants.result import Adequacy, Judged
from agenttape_core.experiments.strategies.mutants.search import mutants

__all__ = ["Adequacy", "Judged", "Mutant", "mutants"]
