"""Findings as Markdown, for the summary of a job and the comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from agenttape_core.errors import counted
from agenttape_core.tools.reporting.findings import Checked
from agenttape_core.tools.reporting.texts import cell, escaped, fenced

_MOST = 200


def headline(checked: Sequence[Checked]) -> str:
    """Return the result in one line.

    Args:
        checked: The runs.
    """
    failed = sum(run.has_failed for run in checked)
    total = f"{counted(len(checked), 'run')}, {counted(sum(len(run.judged) for run in checked), 'check')}"
    warnings = sum(each.level == "warning" for run in checked for each in run.findings)
    told = f", {counted(warnings, 'warning')}" if warnings else ""
    result = f"{counted(failed, 'run')} failed" if failed else "all passed"
    return f"{total}: {result}{told}"


def markdown(checked: Sequence[Checked]) -> str:
    """Return the report: the runs that have findings first, each with them.

    Args:
        checked: The runs.
    """
    lines = [f"### AgentTape: {headline(checked)}", ""]
    told = [run for run in checked if run.findings]
    if not told:
        return "\n".join(lines)
    lines += ["| run | failed | of |", "|---|---|---|"]
    for run in told[:_MOST]:
        failed = ", ".join(dict.fromkeys(each.rule for each in run.judged if each.findings))
        lines.append(f"| {cell(run.name)} | {cell(failed)} | {len(run.judged)} |")
    if len(told) > _MOST:
        lines.append(f"| … and {counted(len(told) - _MOST, 'more run')} | | |")
    lines.append("")
    for run in told[:_MOST]:
        shown = [line for finding in run.findings for line in finding.lines()]
        lines += [f"<details><summary>{escaped(run.name)}</summary>", "", *fenced(shown), "", "</details>", ""]
    return "\n".join(lines)
