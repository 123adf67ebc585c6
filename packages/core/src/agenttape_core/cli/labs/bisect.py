"""`agenttape lab bisect`: the commit from which on a program no longer replays its recording."""

from __future__ import annotations

import click

from agenttape_core.cli.labs import (
    finished,
    finished_tests,
    is_of_tests,
    lab_command,
    recording_of,
    with_cassette,
    with_report,
)
from agenttape_core.cli.output import progress_bar
from agenttape_core.experiments.strategies.bisect import bisect as run_bisect

UNJUDGED = 125  # the exit code of `git bisect run` for what can't be judged


@lab_command("agenttape lab bisect desk.py:answer --cassette desk --good v1.2 --bad HEAD")
@click.argument("target")
@with_cassette
@click.option("--good", required=True, metavar="REV", help="A commit that replays the recording.")
@click.option("--bad", default="HEAD", show_default=True, metavar="REV", help="A later commit that doesn't.")
@with_report
def bisect(target: str, *, cassette: str | None, good: str, bad: str, reports: tuple[str, ...], as_json: bool) -> int:
    """Find the first commit whose program doesn't replay its recording.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Each commit
    that is tried is replayed strictly in a worktree, and half of the others are ruled out by it. No model or tool is
    called. Exits with 125 if commits can't be judged, so that it's one of several.
    """
    if is_of_tests(target):
        return finished_tests([target], reports, as_json=as_json)
    path = recording_of(cassette)
    with progress_bar(None, "replaying") as advance:
        found = run_bisect(target, path, good=good, bad=bad, on_run=advance)
    code = finished(found, reports, as_json=as_json)
    return UNJUDGED if found.is_whole and not found.is_found else code
