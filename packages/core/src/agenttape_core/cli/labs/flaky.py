"""`agenttape lab flaky`: the part of a program that makes it flaky."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.labs import experiment, with_jobs, with_max_usd, with_plan, with_seed
from agenttape_core.experiments.engine import SEED
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.flaky import PROCESSES, SAMPLES, FlakyParts
from agenttape_core.experiments.strategies.flaky import flaky as run_flaky


@experiment(
    "agenttape lab flaky tests/test_desk.py::test_answer --samples 10 --max-usd 1",
    click.option("--samples", default=SAMPLES, show_default=True, help="Run each part so often."),
    with_max_usd,
    with_plan,
    click.option("--live", multiple=True, metavar="TOOL", help="Let this tool be called. Repeatable."),
    click.option("--judge", metavar="NAME", help="The boundary that judges."),
    click.option(
        "--processes", default=PROCESSES, show_default=True, metavar="N", help="Also replay N times in new processes."
    ),
    with_seed(SEED),
    with_jobs,
)
def flaky(program: Program, path: Path | None, *, live: tuple[str, ...], **given: Any) -> FlakyParts:
    """Find the part of a flaky program that makes it so: code, order, a tool, the model, or the judge.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Each part
    varies alone, while all others are replayed: first the free ones, and models only with --max-usd. Exits with 1 if
    something has failed.
    """
    return run_flaky(program, path, live=live or None, **given)
