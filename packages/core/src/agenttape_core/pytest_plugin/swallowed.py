"""Failures of sessions that the program under test caught: the test passes, on what may be broken code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pytest

from agenttape_core.errors import counted
from agenttape_core.lifecycle.running_test import FailedBlock

CAUGHT = "agenttape.caught"  # the name of the property of a test report that holds these failures, as JSON
_SHOWN = 20


def keep_caught(item: pytest.Item, failed: Sequence[FailedBlock]) -> None:
    """Keep with a test that has passed which blocks of its program have failed.

    A block in the file of the test isn't part of the program: such a test catches errors on purpose.
    """
    lines = {block.line for block in of_the_program(item, failed)}
    if lines:
        item.user_properties.append((CAUGHT, json.dumps(sorted(lines))))


def of_the_program(item: pytest.Item, failed: Sequence[FailedBlock]) -> list[FailedBlock]:
    """Return the failed blocks outside the file of the test."""
    return [block for block in failed if block.file != str(item.path)]


def caught_in(report: pytest.TestReport) -> list[str]:
    """Return the lines about a test, in whatever process it ran: its name, then one for each failure."""
    properties: Iterable[tuple[str, object]] = report.user_properties
    found = next((str(value) for name, value in properties if name == CAUGHT), None)
    return [report.nodeid, *(f"    {line}" for line in json.loads(found))] if found is not None else []


def lines_of(tests: Sequence[Sequence[str]]) -> list[str]:
    """Return the section of the summary, a line each."""
    lines = [f"{counted(len(tests), 'test')} passed although a session in it failed: the program caught the error."]
    lines += [line for test in tests[:_SHOWN] for line in test]
    return [*lines, *([f"and {counted(len(tests) - _SHOWN, 'more test')}"] if len(tests) > _SHOWN else [])]
