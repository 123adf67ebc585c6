"""Adequacy: the small edits of a program that no cassette would notice."""

from agenttape_core.tools.adequacy.mutants import Mutant
from agenttape_core.tools.adequacy.result import Adequacy, Judged
from agenttape_core.tools.adequacy.running import adequacy
from agenttape_core.tools.adequacy.search import MOST, SEED
from agenttape_core.tools.adequacy.verdicts import NOTICED, Verdict

__all__ = ["MOST", "NOTICED", "SEED", "Adequacy", "Judged", "Mutant", "Verdict", "adequacy"]
