"""Findings as annotations of GitHub Actions, at the line of the record in the cassette."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agenttape_core.errors import visible
from agenttape_core.tools.reporting.findings import Checked

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def commands(checked: Iterable[Checked]) -> Iterator[str]:
    """Yield a command of a workflow for each finding: `::error file=…,line=…,title=…::…`.

    Args:
        checked: The runs.
    """
    for run in checked:
        for finding in run.findings:
            facts = {"file": finding.path, "line": str(finding.line or ""), "title": f"{run.name}: {finding.rule}"}
            given = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in facts.items() if value)
            yield f"::{finding.level} {given}::{_escaped(chr(10).join(finding.lines()), _DATA)}"


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(char, char) for char in visible(text))
