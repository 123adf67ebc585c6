"""`agenttape lab shrink`: the smallest cassette that still fails."""

from __future__ import annotations

from dataclasses import replace

import click

from agenttape_core.cli.labs import recording_of, show, with_cassette, with_report, with_runs, write_reports
from agenttape_core.cli.output import progress_bar, verb
from agenttape_core.cli.programs import with_program
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.shrink import MAX_REPLAYS, Minimised
from agenttape_core.experiments.strategies.shrink import shrink as run_shrink
from agenttape_core.experiments.strategies.shrunk_test import write_test


@verb("agenttape lab shrink tests/test_desk.py::test_no_amounts --cassette runs/incident-417.jsonl")
@click.argument("target")
@with_cassette
@click.option("-o", "--output", metavar="FILE", help="Write the cassette here; by default NAME.minimal.yaml.")
@with_runs(MAX_REPLAYS, "Replay the program N times at most.")
@click.option("--no-test-file", is_flag=True, help="Write no pytest file.")
@with_report
def shrink(
    target: str,
    *,
    cassette: str | None,
    output: str | None,
    runs: int,
    no_test_file: bool,
    reports: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find the smallest cassette with which a program still fails alike.

    TARGET is the id of a test, module:function, or path/to/file.py:function. Writes NAME.minimal.yaml, and a pytest
    file that replays it. No model or tool is called.
    """
    path = recording_of(cassette)
    with progress_bar(runs, "shrinking") as advance:

        def work(program: Program) -> Minimised:
            found = run_shrink(program, path, to=output, runs=runs, on_replay=lambda _: advance())
            if no_test_file or program.source is None:
                return found
            return replace(found, test=write_test(found, program.source))

        found = with_program(target, work, cassette=path)
    show(found, as_json=as_json)
    write_reports(reports, found.to_dict(), str(found))
    return 0
