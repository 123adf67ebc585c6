"""`agenttape lab faults`: make each recorded call fail once in each way, and show the outcomes in a matrix."""

from __future__ import annotations

import click

from agenttape_core.cli.app import INTERRUPTED
from agenttape_core.cli.labs import (
    finished,
    found_in_tests,
    lab_command,
    recording_of,
    with_cassette,
    with_jobs,
    with_report,
    with_resume,
)
from agenttape_core.cli.output import progress_bar
from agenttape_core.cli.programs import with_program
from agenttape_core.experiments.program import Program, is_command
from agenttape_core.experiments.result import read
from agenttape_core.experiments.strategies.fault_kinds import chosen_kinds
from agenttape_core.experiments.strategies.faults import FaultMatrices, FaultMatrix
from agenttape_core.experiments.strategies.faults import faults as run_faults


@lab_command("agenttape lab faults tests/test_support.py --kinds timeout,cut_stream")
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@with_cassette
@click.option("--kinds", default="all", metavar="KINDS", help="Try only these, such as timeout,empty.")
@click.option("--call", multiple=True, metavar="CALL", help="Let only these fail, by kind, name or node. Repeatable.")
@with_jobs
@with_resume
@with_report
def faults(
    targets: tuple[str, ...],
    *,
    cassette: str | None,
    kinds: str,
    call: tuple[str, ...],
    jobs: int,
    resume: str | None,
    reports: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make each recorded call fail once in each way, offline, and show the outcomes.

    TARGET is a file, a folder or the id of a test, by default all that pytest finds; a function with --cassette, as
    module:function or path/to/file.py:function; or a command after the options and --. What passes with its recording
    is run again for each fault. No model or tool is called, and no file changes.

    Exits with 0 if all is well, and with 1 if a run passed although its agent did something else (SILENT), or a test
    was excluded because it fails without a fault. Ctrl-C ends it with the results so far, which --resume continues
    from.
    """
    chosen = None if kinds == "all" else [name.strip() for name in kinds.split(",") if name.strip()]
    if chosen is not None:
        chosen_kinds(chosen)
    path = recording_of(cassette)
    if path is None and not any(map(is_command, targets)):
        plain, code = found_in_tests(targets)
        matrices = tuple(read(FaultMatrix, one) for one in plain["tests"])
        tests = FaultMatrices(matrices, is_stopped=code == INTERRUPTED)
        return finished(tests, reports, as_json=as_json)
    if len(targets) != 1:
        raise click.UsageError("--cassette is for one function or command: name it, and nothing else")
    with progress_bar(None, "replaying") as advance:

        def work(program: Program) -> FaultMatrix:
            return run_faults(program, path, chosen, call=call, jobs=jobs, resume=resume, on_run=advance)

        found = FaultMatrices((with_program(targets[0], work, cassette=path),))
    return finished(found, reports, as_json=as_json)
