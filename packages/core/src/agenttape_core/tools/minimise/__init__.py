"""Minimising: from a run that fails to the smallest cassette with which it still fails alike."""

from agenttape_core.tools.minimise.minimising import MAX_REPLAYS, minimise
from agenttape_core.tools.minimise.pytest_file import write_test
from agenttape_core.tools.minimise.result import Minimised

__all__ = ["MAX_REPLAYS", "Minimised", "minimise", "write_test"]
