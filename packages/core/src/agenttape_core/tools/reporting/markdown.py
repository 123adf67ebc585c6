"""Findings as Markdown, for the summary of a job and the comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from agenttape_core.errors import counted, visible
from agenttape_core.tools.reporting.findings import Checked

# -- Texts of strangers inside Markdown and XML: what stands in a recording may be anything.


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def fenced(lines: Sequence[str], language: str = "") -> list[str]:
    """Return lines as a block of code, fenced by more backticks than they hold.

    Args:
        lines: The lines.
        language: The language of the block.
    """
    clean = [_CONTROL.sub("�", line).replace("\n", "⏎") for line in lines]
    longest = max((len(found) for line in clean for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *clean, fence]


def code(text: str) -> str:
    """Return a text as code inside a line, without any markup that a code host would act on."""
    return f"`{_CONTROL.sub('�', text).replace('`', chr(39)).replace('|', '/')}`"


def cell(text: str) -> str:
    """Return a text as code inside a cell of a table."""
    return code(text.replace("\n", "⏎"))


def escaped(text: str) -> str:
    """Return a text for HTML inside Markdown."""
    clean = _CONTROL.sub("�", text).replace("\n", "⏎")
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def xml_text(text: str) -> str:
    """Return a text without the characters that no XML may hold, which parsers refuse a whole file for."""
    return _NO_XML.sub("�", text)


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
