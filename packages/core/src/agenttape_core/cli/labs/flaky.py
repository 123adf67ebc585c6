"""`agenttape lab flaky`: the part of a program that makes it flaky."""

from __future__ import annotations

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.labs import recording_of, show, with_cassette, with_report, with_seed, write_reports
from agenttape_core.cli.output import progress_bar, verb
from agenttape_core.cli.programs import with_program
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.flaky import SAMPLES, SEED, SURROUNDINGS, Triage
from agenttape_core.experiments.strategies.flaky import flaky as run_flaky


@verb("agenttape lab flaky tests/test_desk.py::test_answer --samples 10 --max-usd 1")
@click.argument("target")
@with_cassette
@click.option("--samples", default=SAMPLES, show_default=True, help="Run each part so often.")
@click.option(
    "--max-usd", type=float, metavar="DOLLARS", help="Let models cost so much at most; without it, none is called."
)
@click.option("--live", "tools", multiple=True, metavar="TOOL", help="Let this tool be called. Repeatable.")
@click.option("--judge", metavar="NAME", help="The boundary that judges.")
@click.option(
    "--processes", default=SURROUNDINGS, show_default=True, metavar="N", help="Also replay N times in new processes."
)
@with_seed(SEED)
@with_report
def flaky(
    target: str,
    *,
    cassette: str | None,
    samples: int,
    max_usd: float | None,
    tools: tuple[str, ...],
    judge: str | None,
    processes: int,
    seed: int,
    reports: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find the part of a flaky program that makes it so: code, order, a tool, the model, or the judge.

    TARGET is the id of a test, module:function, or path/to/file.py:function. Each part varies alone, while all others
    are replayed: first what costs nothing, and models only with --max-usd. Exits with 1 if something has failed.
    """
    path = recording_of(cassette)
    with progress_bar(None, "sampling") as advance:

        def work(program: Program) -> Triage:
            return run_flaky(
                program,
                path,
                samples=samples,
                max_usd=max_usd,
                tools=tools or None,
                judge=judge,
                surroundings=processes,
                seed=seed,
                on_sample=advance,
            )

        found = with_program(target, work, cassette=path)
    show(found, as_json=as_json)
    write_reports(reports, found.to_dict(), str(found))
    return FINDINGS if found.culprits else OK
