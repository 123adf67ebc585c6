"""`agenttape lab change`: run a changed program on its recordings, and compare it with its base."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.labs import (
    finished,
    lab_command,
    recording_of,
    with_jobs,
    with_max_usd,
    with_plan,
    with_report,
    with_resume,
)
from agenttape_core.cli.output import progress_bar
from agenttape_core.experiments.strategies.change import change as run_change


@lab_command("agenttape lab change tests/test_desk.py::test_answer --base main --max-usd 1")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--cassette", "cassettes", multiple=True, metavar="NAME", help="A recording of the function. Repeatable.")
@click.option("--base", required=True, metavar="REV", help="The revision to compare with, such as main.")
@click.option("--to", metavar="REV", help="The changed revision; by default the working tree.")
@click.option("--samples", type=click.IntRange(1), default=10, show_default=True, help="The most pairs of a recording.")
@with_max_usd
@click.option("--live", multiple=True, metavar="CALL", help="Let this tool be called, too. Repeatable.")
@click.option("--checks", multiple=True, metavar="FILE", help="A file of checks that samples must pass. Repeatable.")
@with_jobs
@with_plan
@with_resume
@with_report
def change(
    targets: tuple[str, ...], *, cassettes: tuple[str, ...], reports: tuple[str, ...], as_json: bool, **options: Any
) -> int:
    """Replay recordings with two revisions, and show which ones the change affects.

    TARGET is a file or the id of a test; with --cassette module:function or path/to/file.py:function; or a command
    after --. Both revisions replay each recording strictly: what makes the same calls is decided, for free. With
    --max-usd, the calls that the change affects are made by both revisions in pairs, and all others are replayed. Exits
    with 1 if a recording is WORSE, CHANGED, or can't be compared.
    """
    paths = [recording_of(one) or one for one in cassettes] or None
    with progress_bar(None, "replaying") as advance:
        found = run_change(targets, paths, on_run=advance, **options)
    return finished(found, reports, as_json=as_json)
