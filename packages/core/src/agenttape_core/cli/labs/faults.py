"""`agenttape lab faults`: each recorded call fails once in each way, and a matrix shows what came of it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.labs import recording_of, with_cassette, with_report, write_reports
from agenttape_core.cli.output import print_json, print_text, progress_bar, verb
from agenttape_core.cli.programs import with_program
from agenttape_core.cli.running import NO_TESTS, run_pytest
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.fault_kinds import chosen_kinds
from agenttape_core.experiments.strategies.faults import FAILING, FaultMatrix, lines_of
from agenttape_core.experiments.strategies.faults import faults as run_faults


@verb("agenttape lab faults tests/test_support.py --kinds timeout,cut_stream")
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@with_cassette
@click.option("--kinds", default="all", metavar="KINDS", help="Try only these, such as timeout,empty.")
@with_report
def faults(
    targets: tuple[str, ...], *, cassette: str | None, kinds: str, reports: tuple[str, ...], as_json: bool
) -> int:
    """Let each recorded call fail once in each way, offline, and show what came of it.

    TARGET is a file, a folder or the id of a test, by default all that pytest finds; or a function with --cassette, as
    module:function or path/to/file.py:function. What passes with its recording is run again for each fault. No model
    or tool is called, and no file changes.

    Exits with 0 if all is well, and with 1 if a run passed although its agent did something else (SILENT), or a test
    was excluded because it fails without a fault.
    """
    chosen = None if kinds == "all" else [name.strip() for name in kinds.split(",") if name.strip()]
    if chosen is not None:
        chosen_kinds(chosen)
    path = recording_of(cassette)
    if path is None:
        matrices = _matrices(targets, kinds)
    elif len(targets) != 1:
        raise click.UsageError("--cassette is for one function: name it, and nothing else")
    else:
        with progress_bar(None, "replaying") as advance:

            def work(program: Program) -> FaultMatrix:
                if program.function is None:
                    raise click.UsageError("--cassette is for a function; a test has its own")
                return run_faults(program.function, path, chosen, progress=lambda _: advance())

            matrices = [with_program(targets[0], work, cassette=path)]
    plain = {"tests": [matrix.to_dict() for matrix in matrices]}
    text = "\n".join(lines_of(matrices))
    if as_json:
        print_json(plain)
    else:
        print_text(text)
    write_reports(reports, plain, text, [matrix.to_checked() for matrix in matrices])
    if not any(matrix.cells for matrix in matrices):
        return FINDINGS  # which says that none could be tried
    return FINDINGS if any(matrix.excluded or matrix.failing(FAILING) for matrix in matrices) else OK


def _matrices(tests: tuple[str, ...], kinds: str) -> list[FaultMatrix]:
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        file = Path(folder) / "faults.json"
        ended = run_pytest(tests, [f"--cassette-lab=faults:{kinds}", f"--cassette-report={file}"], quietly=True)
        if ended.returncode not in {OK, FINDINGS} or not file.exists():
            why = "found no tests" if ended.returncode == NO_TESTS else f"ended with {ended.returncode}"
            raise ConfigurationError(f"pytest {why}\n{ended.stdout.strip()}\n{ended.stderr.strip()}".strip())
        plain = json.loads(file.read_text(encoding="utf-8"))["tests"]
    return [FaultMatrix.from_dict(one) for one in plain]
