"""`agenttape verify`: replay in varied environments, and compare the results."""

from __future__ import annotations

import os
import sys
from collections import deque

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_one, records_of
from agenttape_core.cli.labs import with_cassette
from agenttape_core.cli.output import cli_command, print_json, print_text, progress_bar
from agenttape_core.experiments.verify import EVERY_FACTOR
from agenttape_core.experiments.verify import verify as run_verify


@cli_command("agenttape verify tests/agent.py:run --cassette weather")
@click.argument("target")
@with_cassette
@click.option("--runs", type=click.IntRange(2), default=5, show_default=True, metavar="N", help="Replay N times.")
@click.option(
    "--vary",
    multiple=True,
    type=click.Choice(sorted(EVERY_FACTOR)),
    help="Vary this factor; by default all. Repeatable.",
)
@click.option("--timeout", default=300.0, show_default=True, help="Stop a replay after so many seconds.")
def verify(
    target: str, *, cassette: str | None, runs: int, vary: tuple[str, ...], timeout: float, as_json: bool
) -> int:
    """Replay in varied environments, and compare the results.

    TARGET is module:function or path/to/file.py:function, without arguments. The cassette is opened around it, unless
    it opens its own. Exits with 1 if the replays differ or fail, with 3 if the cassette cannot be read.
    """
    path = _readable(cassette) if cassette is not None else None
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - an entry of the path is a text; modules are found from here
    with progress_bar(runs, "replaying") as advance:
        found = run_verify(target, path, runs=runs, vary=vary or EVERY_FACTOR, timeout=timeout, on_run=advance)
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(str(found))
    return OK if found.ok else FINDINGS


def _readable(cassette: str) -> str:
    """Return the path of a cassette after reading it once: else each replay would fail for the same reason, later."""
    if cassette == STDIN:
        raise click.UsageError("several processes cannot read standard input; name a cassette")
    found = found_one(cassette)
    deque(records_of(found), maxlen=0)
    return found.shown
