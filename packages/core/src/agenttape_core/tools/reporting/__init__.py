"""Findings about runs, written for machines and people: each form in a separate module, which only gets findings."""

from agenttape_core.tools.reporting.findings import Checked, Finding, Judged

__all__ = ["Checked", "Finding", "Judged"]
