"""Findings about runs, written for machines and people: each form in a module of its own, fed with findings only."""

from agenttape_core.tools.reporting.findings import Checked, Finding, Judged

__all__ = ["Checked", "Finding", "Judged"]
