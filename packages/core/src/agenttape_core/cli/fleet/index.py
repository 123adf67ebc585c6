"""`agenttape fleet index`: a table of recorded calls."""

from __future__ import annotations

import click

from agenttape_core.cli.app import CASSETTE, OK
from agenttape_core.cli.output import cli_command, print_json, print_text, progress_bar, unread
from agenttape_core.fleet.index import update_index


@cli_command("agenttape fleet index 's3://runs/2026-11-*/*' -o index.parquet")
@click.argument("sources", nargs=-1, required=True, metavar="URL...")
@click.option(
    "-o", "--output", default="index.parquet", show_default=True, metavar="FILE", help="The index, or its URL."
)
@click.option("--with-messages", is_flag=True, help="Add requests and answers, as JSON. By default no word of them.")
def index(sources: tuple[str, ...], *, output: str, with_messages: bool, as_json: bool) -> int:
    """Write a table with a row for each recorded call, for queries and for notebooks.

    URL is a folder, a URL or a glob of recordings. Ask about them with agenttape fleet query. Run it again to add new
    recordings: it reads only those that are new or have changed. The table is a Parquet file of names and numbers: run,
    day, trajectory, place, kind, name, model, tokens, dollars, times, status, error and the hash of the request.

    Exits with 3 if a recording can't be read; the index has all others.
    """
    with progress_bar(None, "reading") as advance:
        done = update_index(output, sources, with_messages=with_messages, on_recording=advance)
    if as_json:
        plain = {"calls": done.calls, "recordings": done.recordings, "added": done.added}
        print_json({"index": output, **plain, "unreadable": dict(done.unreadable)})
    else:
        for problem in done.unreadable.values():
            print_text(problem, "red")
        numbers = f"{done.calls:,} calls of {done.recordings:,} recordings, {done.added:,} of them new"
        print_text(f"{output}: {numbers}{unread(len(done.unreadable))}")
    return CASSETTE if done.unreadable else OK
