"""Triage: the part of a program that makes a test flaky, found by letting each part vary alone."""

from agenttape_core.tools.triage.lanes import Lane, Sample, Triage
from agenttape_core.tools.triage.running import triage

__all__ = ["Lane", "Sample", "Triage", "triage"]
