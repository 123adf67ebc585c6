"""`agenttape fleet plan`: the work on many recordings, as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from agenttape_core.checks.check_file import read_checks
from agenttape_core.cli.app import OK
from agenttape_core.cli.output import cli_command
from agenttape_core.fleet.items import EXPERIMENTS, Experiment
from agenttape_core.fleet.judging import APP
from agenttape_core.fleet.planning import current_revision, planned
from agenttape_core.schema import OWN


@cli_command("agenttape fleet plan runs --experiment check --checks rules.yaml > items.jsonl")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--experiment", type=click.Choice(EXPERIMENTS), required=True, help="What is done with each recording.")
@click.option("--program", default="", metavar="TARGET", help="A function, the id of a test, or '-- COMMAND'.")
@click.option("--app", metavar="NAME", help="The program that begins each run again, as module:name.")
@click.option("--model", "candidate", metavar="MODEL", help="The model to try, as provider:model.")
@click.option("--samples", type=click.IntRange(1), default=1, show_default=True, help="Samples of each model.")
@click.option("--live", multiple=True, metavar="CALL", help="Other calls to execute in samples. Repeatable.")
@click.option("--checks", multiple=True, metavar="FILE", help="A YAML file of rules for runs. Repeatable.")
@click.option("--revision", metavar="REVISION", help="The program's revision; by default the commit of this folder.")
def plan(
    urls: tuple[str, ...],
    *,
    experiment: Experiment,
    program: str,
    app: str | None,
    candidate: str | None,
    samples: int,
    live: tuple[str, ...],
    checks: tuple[str, ...],
    revision: str | None,
    as_json: bool,
) -> int:
    """List the work on many recordings, as a file for any number of workers.

    URL is a folder, a file, a URL or a glob of cassettes. Prints JSON lines, sorted: the same recordings and options
    give the same bytes. Each item has the hash of the recording and of all that decides the outcome.
    """
    del as_json  # it's JSON anyway
    if experiment == "check" and (program or app or not checks):
        raise click.UsageError("--experiment check needs rules, and takes no program: --checks FILE")
    if experiment != "check" and bool(program) == (app is not None):
        raise click.UsageError(f"--experiment {experiment} needs a program: --program TARGET, or --app NAME")
    if (experiment == "model") != (candidate is not None):
        raise click.UsageError("--model MODEL and --experiment model belong together")
    for file in checks:
        read_checks(file)  # which shows what is wrong in it
    settings: dict[str, Any] = {}
    if checks:
        settings["checks"] = {Path(file).as_posix(): Path(file).read_text(encoding="utf-8") for file in checks}
    if live:
        settings["options"] = {"live": sorted(live)}
    made = planned(
        urls,
        experiment,
        program=program or (f"{APP}{app}" if app else ""),
        revision="" if experiment == "check" else revision or current_revision(),
        candidates=(OWN, candidate) if candidate is not None else ("",),
        samples=samples if candidate is not None else 0,
        settings=settings,
    )
    sys.stdout.write(made.text())
    return OK
