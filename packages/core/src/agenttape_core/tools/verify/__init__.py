"""Proof that a replay is the same run: replay it in child processes whose surroundings differ, and compare."""

from agenttape_core.tools.verify.cause import Cause
from agenttape_core.tools.verify.environment import FACTORS, Factor, Surroundings
from agenttape_core.tools.verify.result import Run, RunDifference, Verification
from agenttape_core.tools.verify.steps import verify

__all__ = ["FACTORS", "Cause", "Factor", "Run", "RunDifference", "Surroundings", "Verification", "verify"]
