"""Replay a run with something changed, and get an account of what came of it."""

from agenttape_core.tools.what_if.account import WhatIf
from agenttape_core.tools.what_if.running import awhat_if, what_if

__all__ = ["WhatIf", "awhat_if", "what_if"]
