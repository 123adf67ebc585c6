"""The budgets of the design, measured as ratios in one process: `make bench`.

Compare ratios, not microseconds: they hold on a slow machine. `--write PAGE` puts the table into a page of the docs,
`--quick` only tries that everything works.
"""

from __future__ import annotations

import argparse
import gc
import re
import tempfile
from pathlib import Path

import calls
import candidates
import commands
import edited
import explored
import faulted
import files
import fleets
import imports
import observed
import parallel
import peers
import redaction
import saver_operations
import savers
import suites
from measure import FULL, QUICK, Row, machine

_OURS = (
    calls.replay_and_record,
    calls.new_text,
    calls.events,
    calls.growth,
    files.openings,
    files.agents,
    observed.observed,
    parallel.parallel,
    parallel.growth,
    savers.threads,
    savers.services,
    saver_operations.savers_in_turns,
    imports.imports,
    suites.suites,
    candidates.candidates,
    commands.commands,
    commands.gate,
    fleets.index,
    fleets.work,
    fleets.killed,
    fleets.waiting,
    faulted.cells,
    explored.orders,
    edited.mutants,
    redaction.speed,
    redaction.quality,
)
_THEIRS = (peers.caches, peers.clients, peers.openings)


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [f"| {row.what} | {row.found} | {row.budget} |" for row in rows]
    return "\n".join(["| what | measured | budget |", "|---|---|---|", *lines])


def merged(page: str, rows: list[Row]) -> list[Row]:
    """Return the rows of a page, those that were measured again in their places and new ones at the end."""
    measured = page.partition("<!-- measured -->")[2].partition("<!-- end -->")[0]
    before = [Row(*cells) for cells in re.findall(r"^\| (.*?) \| (.*?) \| (.*?) ?\|$", measured, re.MULTILINE)[1:]]
    found = {row.what: row for row in rows}
    kept = [found.pop(row.what, row) for row in before]
    return [*kept, *found.values()]


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="measure what these files define (default: all)")
    parser.add_argument("--quick", action="store_true", help="only try that everything works")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="put the table between the markers of a page; with files, their rows"
    )
    options = parser.parse_args()
    rows: list[Row] = []
    gc.freeze()  # each round begins with a collection, which need not go through all that is loaded
    for measure in (*_OURS, *(_THEIRS if peers.INSTALLED else ())):
        if options.files and measure.__module__ not in options.files:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for row in measure(Path(folder), QUICK if options.quick else FULL):
                rows.append(row)
                print(f"{row.what:<66} {row.found:>20}   {row.budget}", flush=True)
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        if options.files:
            rows = merged(page, rows)
        measured = f"<!-- measured -->\n{table(rows)}\n\nMeasured with {machine()}.\n<!-- end -->"
        options.write.write_text(
            re.sub(r"<!-- measured -->.*<!-- end -->", lambda _: measured, page, flags=re.DOTALL), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
