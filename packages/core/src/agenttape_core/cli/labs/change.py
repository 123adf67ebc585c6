"""`agenttape lab change`: a changed program on what was recorded, compared with its base."""

from __future__ import annotations

import click

from agenttape_core.cli.labs import finished, recording_of, with_report
from agenttape_core.cli.output import cli_command, progress_bar
from agenttape_core.experiments.strategies.change import change as run_change


@cli_command("agenttape lab change tests/test_desk.py::test_answer --base main")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--cassette", "cassettes", multiple=True, metavar="NAME", help="A recording of the function. Repeatable.")
@click.option("--base", required=True, metavar="REV", help="The revision to compare with, such as main.")
@click.option("--to", metavar="REV", help="The changed revision; by default the working tree.")
@with_report
def change(
    targets: tuple[str, ...],
    *,
    cassettes: tuple[str, ...],
    base: str,
    to: str | None,
    reports: tuple[str, ...],
    as_json: bool,
) -> int:
    """Replay what was recorded with two revisions, and show which recordings the change affects.

    TARGET is the id of a test, or with --cassette module:function or path/to/file.py:function. Both revisions replay
    each recording strictly: what makes the same calls is decided, for free; a new request is shown. No model or tool
    is called. Exits with 1 if a recording is CHANGED or UNCLEAR.
    """
    paths = [recording_of(one) or one for one in cassettes] or None
    with progress_bar(None, "replaying") as advance:
        found = run_change(targets, paths, base=base, to=to, on_run=advance)
    return finished(found, reports, as_json=as_json)
