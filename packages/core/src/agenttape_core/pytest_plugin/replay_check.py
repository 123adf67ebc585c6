"""The replay check of a recording: its test is run again right away, and has to replay like any later run."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from agenttape_core.errors import counted
from agenttape_core.lifecycle.project import replaying_only
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.pytest_plugin.failures import ours_in, place_of
from agenttape_core.pytest_plugin.rerun import Excinfo, run_again
from agenttape_core.session.report import NO_SIDE_EFFECTS

if TYPE_CHECKING:
    from agenttape_core.lifecycle.running_test import FailedBlock, RunningTest
    from agenttape_core.session import Report
    from agenttape_core.session.report import SkippedTool


class Reporting(Protocol):
    """The cassette of a test in use, as far as the check needs it."""

    @property
    def report(self) -> Report | None:
        """The report on the calls, if the cassette was opened."""


ADVICE = (
    "A test that passes in a new process left something behind in this one when it recorded, such as a cache,",
    "a module variable or a thread in a database: reset that in a fixture, or don't check this test:",
    "  @pytest.mark.cassette(check_replay=False)",
)
_LINES = 16  # the most lines of an error that are shown
_TOOLS = 3  # the most tools that are named


def difference_of(
    item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any], name: str
) -> list[str] | None:
    """Run a test again that recorded and passed; no real call is made, and every session only replays.

    For the arguments, see `look_at`. Returns the difference, a line each; no line if the test passed again; and `None`
    if that can't be told, as the test keeps a cassette in a temporary folder, which each run records.
    """
    recorded, test = item.stash[key], this_test()
    del item.stash[key]  # if the setup fails, there is no other
    before, failed = (len(test.reports), len(test.failed)) if test is not None else (0, 0)
    try:
        with replaying_only(everywhere=True):
            raised = run_again(item, nextitem)
        replayed: Reporting | None = item.stash.get(key, None)
    finally:
        item.stash[key] = recorded
    report = replayed.report if replayed is not None else None
    found = list(_found(raised, report))
    if not found:
        return []
    has_missed = report is not None and report.missed
    if test is not None and not has_missed and any(_is_temporary(item, test, block) for block in test.failed[failed:]):
        return None
    first = f"{name} passed while recording, then failed when it was replayed right away:"
    tools = (
        dict.fromkeys(tool for report in test.reports[before:] for tool in report.not_run) if test is not None else {}
    )
    lines = [*found, *_bodies(list(tools)), f"to try it in a new process:   pytest {shlex.quote(name)}"]
    return [first, *(f"  {line}".rstrip() for line in lines)]


def _is_temporary(item: pytest.Item, test: RunningTest, block: FailedBlock) -> bool:
    path, temporary = block.missing, Path(tempfile.gettempdir()).resolve()
    if path is None:
        return False
    is_inside = path.is_relative_to(temporary) and not path.is_relative_to(item.config.rootpath.resolve())
    return is_inside or any(path.is_relative_to(Path(place).resolve()) for place in test.places().values())


def _bodies(tools: Sequence[SkippedTool]) -> Iterator[str]:
    """Yield a line for each tool whose body was skipped: only for those with side effects, if there are any."""
    acting = [tool for tool in tools if f"({tool.why})" not in NO_SIDE_EFFECTS][:_TOOLS]
    for tool in acting:
        yield f"{tool.name} {tool.why} while recording. In a replay its body doesn't run."
    shown = acting or tools[:_TOOLS]
    if not acting:
        yield from (f"{tool.name}'s body didn't run." for tool in shown)
    if shown:
        names = ", ".join(f'"{tool.name}"' for tool in shown)
        yield f"to run its body in replays:   @pytest.mark.cassette(step_into={{{names}}})"


def _found(raised: Excinfo | None, report: Report | None) -> Iterator[str]:
    if raised is not None:
        yield from _said(raised)
    elif report is not None and (counts := _lenient(report)):
        yield f"it passed, with {counts}"


def _said(raised: Excinfo) -> Iterator[str]:
    """Yield the text of a failure: only the message of our errors, as it names the place."""
    error = ours_in(raised.value)
    place = place_of(raised.value)
    lines = f"{type(error).__name__}: {error}".splitlines() if error is not None else raised.exconly().splitlines()
    if place:
        yield f"{place}: {lines.pop(0)}"
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"… and {counted(len(lines) - _LINES, 'line')} more"


def _lenient(report: Report) -> str:
    """Return the counts that a lenient session lets pass: calls without a recording, for example."""
    counts = {"missed": len(report.missed), "unrecorded": len(report.unrecorded), "blocked": len(report.blocked)}
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number)
