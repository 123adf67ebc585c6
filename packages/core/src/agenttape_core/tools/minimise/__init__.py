"""Minimising: from a run that fails to the smallest cassette with which it still fails alike."""

from agenttape_core.tools.minimise.minimising import minimise
from agenttape_core.tools.minimise.result import Minimised

__all__ = ["Minimised", "minimise"]
