"""Proof that a replay is the same run: replay it in child processes whose surroundings differ, and compare."""

from agenttape_core.experiments.verify.environment import (
    ALL_FACTORS,
    EVERY_FACTOR,
    FACTORS,
    WITHIN,
    Cause,
    Factor,
    Surroundings,
)
from agenttape_core.experiments.verify.result import Run, RunDifference, Verification
from agenttape_core.experiments.verify.steps import verify

__all__ = [
    "ALL_FACTORS",
    "EVERY_FACTOR",
    "FACTORS",
    "WITHIN",
    "Cause",
    "Factor",
    "Run",
    "RunDifference",
    "Surroundings",
    "Verification",
    "verify",
]
