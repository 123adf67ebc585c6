"""The report as Markdown, for the summary of a job and the comment on a pull request.

What stands in a recording may be anything, so it stands in code only: fenced by more backticks than it holds, and
without the characters that a forge would act on.
"""

from __future__ import annotations

from collections.abc import Sequence

from agenttape_core.errors import counted
from agenttape_core.tools.report.change import Change, Totals
from agenttape_core.tools.reporting.texts import cell, code, escaped, fenced

MARK = "<!-- agenttape-report -->"
"""The first line of a comment, by which a job finds its own."""

_SAID = {"path": "another path", "words": "other words", "new": "new", "gone": "gone", "unreadable": "unreadable"}
_MOST = 65_000
"""The most characters of a comment: GitHub takes 65,536."""


def markdown(changes: Sequence[Change], base: str) -> str:
    """Return the report.

    Args:
        changes: The changes of all recordings that were compared, the same ones among them.
        base: The revision that they are compared with.
    """
    totals = Totals.of(changes)
    different = [one for one in changes if one.state != "same"]
    lines = [f"### AgentTape: {_headline(totals)}", ""]
    if not different:
        return "\n".join([*lines, f"Compared with {code(base)}: {counted(totals.recordings, 'recording')}."]) + "\n"
    lines += ["| recording | change | calls | tokens | money |", "|---|---|---|---|---|"]
    order = list(_SAID)
    different.sort(key=lambda one: (order.index(one.state), one.path))
    for one in different:
        numbers = [
            _moved(len(one.before.calls), len(one.now.calls)),
            _moved(one.before.tokens, one.now.tokens),
            _money(one.before.dollars, one.now.dollars),
        ]
        lines.append(f"| {cell(one.path)} | {_SAID[one.state]} | {' | '.join(numbers)} |")
    sums = [_moved(*totals.tokens), _money(*totals.dollars)]
    lines += [f"| **all {totals.recordings}** | | | {' | '.join(sums)} |", ""]
    for one in different:
        lines += _details(one)
    lines.append(f"Compared with {code(base)}. `agenttape diff` shows all of it.")
    return "\n".join(lines) + "\n"


def comment(text: str) -> str:
    """Return a report as the body of a comment, cut to what a forge takes.

    Args:
        text: The report.
    """
    body = f"{MARK}\n{text}"
    if len(body) <= _MOST:
        return body
    kept = body[:_MOST].rpartition("\n<details>")[0]
    return f"{kept}\n\nThe rest is too long for a comment; see the summary of the job.\n"


def _headline(totals: Totals) -> str:
    if not totals.changed:
        return "no recording changed"
    took = f", {totals.paths} took another path" if totals.paths else ", none took another path"
    return f"{totals.changed} of {counted(totals.recordings, 'recording')} changed{took}"


def _details(change: Change) -> list[str]:
    shown = [*change.calls]
    for call, place, before, now in change.words:
        shown += [*([""] if shown else []), f"  {call}", f"  {place}", f"- {before}", f"+ {now}"]
    if change.changed > len(change.words) and change.words:
        shown += ["", f"  {counted(change.changed, 'call')} differ"]
    if change.problem:
        shown.append(change.problem)
    return [
        "<details><summary>" + escaped(change.path) + "</summary>",
        "",
        *fenced(shown, "diff"),
        "",
        "</details>",
        "",
    ]


def _moved(before: int, now: int) -> str:
    return f"{now:,}" if before == now else f"{before:,} → {now:,}"


def _money(before: float, now: float) -> str:
    if not before and not now:
        return ""
    return f"${now:.4f}" if before == now else f"${before:.4f} → ${now:.4f}"
