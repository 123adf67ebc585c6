"""The limit on what a heal may cost, where it was before others had one: see `agenttape_core.tools.budget`."""

from agenttape_core.tools.budget import Budget

__all__ = ["Budget"]
