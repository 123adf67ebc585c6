"""Misses by their causes: one edit of a prompt fails many tests, and is reported once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from agenttape_core.errors import CassetteMissError, counted
from agenttape_core.matching import Difference
from agenttape_core.named_tuples import NamedTuple

_MISS = "agenttape.miss"  # the name of the property of a test report that holds its miss, as JSON
_SHOWN = 3
_MARKED = re.compile(r"\[-.*?-\]|\{\+.*?\+\}", re.DOTALL)  # the words of a text that differ from another one's


class Cause(NamedTuple):
    """The cause of misses: calls that differ from their nearest recordings in the same words."""

    kind: str  # the kind of the calls
    differences: tuple[tuple[str, str, str], ...]  # the path in the request, the recorded value, and the present one
    reason: str  # the reason of a call that has no nearest recording, or doesn't differ from it

    @property
    def edit(self) -> Cause:
        """The cause without the words around those that differ, which may be others in each test."""
        words = tuple((path, _edited(recorded), _edited(asked)) for path, recorded, asked in self.differences)
        return self._replace(differences=words)

    def lines(self) -> list[str]:
        """Return it, a line each."""
        if not self.differences:
            return [f"    {self.kind}: {self.reason}"]
        lines = []
        for path, recorded, asked in self.differences[:_SHOWN]:
            old, new = Difference(path, recorded, asked).unmarked()
            lines += [f"    {self.kind}  {path}", f"      - {old}", f"      + {new}"]
        more = len(self.differences) - _SHOWN
        return [*lines, f"      and {counted(more, 'more place')}"] if more > 0 else lines


def keep_miss(properties: Iterable[tuple[str, object]], error: BaseException | None) -> list[tuple[str, object]]:
    """Return properties of a test report with its miss, if that's why it failed, replacing an earlier one."""
    kept = [(name, value) for name, value in properties if name != _MISS]
    if isinstance(error, CassetteMissError) and error.kind:
        kept.append((_MISS, json.dumps({**error.to_dict(), "message": str(error)})))
    return kept


class Misses:
    """The misses of a run by their causes. It shortens the reports of all tests but the first of a cause."""

    def __init__(self) -> None:
        self._tests: dict[Cause, tuple[Cause, list[str]]] = {}
        """The first of all causes with the same edit, and their tests."""
        self.by_test: dict[str, dict[str, Any]] = {}  # each miss as plain data, with its message

    def note(self, report: pytest.TestReport) -> None:
        """Note the report of a failed test, in whatever process it was made."""
        found = next((str(value) for name, value in report.user_properties if name == _MISS), None)
        if found is None:
            return
        self.by_test[report.nodeid] = json.loads(found)
        cause = _cause(self.by_test[report.nodeid])
        _, tests = self._tests.setdefault(cause.edit, (cause, []))
        tests.append(report.nodeid)
        if len(tests) > 1 and cause.differences:
            _shorten(report, tests[0])

    def lines(self, again: Callable[[str], str]) -> list[str]:
        """Return the summary, a line each; empty for a single test, whose own message has all of it.

        `again` returns the command that runs the same tests with one more option.
        """
        if sum(len(tests) for _, tests in self._tests.values()) <= 1:
            return []
        lines = []
        for cause, tests in sorted(self._tests.values(), key=lambda item: -len(item[1])):
            lines += [f"{counted(len(tests), 'test')}, first {tests[0]}", *cause.lines()]
        return [
            *lines,
            f"to see what an update would record:  {again('--cassette-dry-run')}",
            f"to record only what changed:         {again('--rerecord=changed')}",
        ]


def _edited(text: str) -> str:
    return " ".join(_MARKED.findall(text)) or text


def _cause(plain: Mapping[str, Any]) -> Cause:
    parts: Sequence[Mapping[str, str]] = plain["differences"]
    differences = tuple((part["path"], part["recorded"], part["asked"]) for part in parts)
    return Cause(plain["kind"], differences, "" if differences else f"{plain['name']}: {plain['reason']}")


def _shorten(report: pytest.TestReport, first: str) -> None:
    """Leave out the parts of the message that the first test with the same cause shows."""
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", None)
    if not entries:
        return
    lines: list[str] = entries[-1].lines
    error = next((number for number, line in enumerate(lines) if line.startswith("E")), None)
    if error is not None:
        lines[error + 1 :] = [f"E     differs as in {first}"]
