"""A check that a replay is the same run: replay it in child processes whose environment differs, and compare."""

from agenttape_core.experiments.verify.comparison import Run, RunDifference, Verification
from agenttape_core.experiments.verify.environment import (
    ALL_FACTORS,
    EVERY_FACTOR,
    FACTORS,
    WITHIN,
    Cause,
    Environment,
    Factor,
)
from agenttape_core.experiments.verify.steps import verify

__all__ = [
    "ALL_FACTORS",
    "EVERY_FACTOR",
    "FACTORS",
    "WITHIN",
    "Cause",
    "Environment",
    "Factor",
    "Run",
    "RunDifference",
    "Verification",
    "verify",
]
