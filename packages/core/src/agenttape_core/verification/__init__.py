"""Proof that a replay is the same run: replay it in child processes whose surroundings differ, and compare."""

from agenttape_core.verification.cause import Cause
from agenttape_core.verification.surroundings import FACTORS, Factor, Surroundings
from agenttape_core.verification.verification import Run, RunDifference, Verification
from agenttape_core.verification.verifying import verify

__all__ = ["FACTORS", "Cause", "Factor", "Run", "RunDifference", "Surroundings", "Verification", "verify"]
