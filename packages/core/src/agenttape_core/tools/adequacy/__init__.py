"""Adequacy: the small edits of a program that no cassette would notice."""

from agenttape_core.tools.adequacy.mutants import Mutant
from agenttape_core.tools.adequacy.result import Adequacy, Judged
from agenttape_core.tools.adequacy.running import adequacy

__all__ = ["Adequacy", "Judged", "Mutant", "adequacy"]
