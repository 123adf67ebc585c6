"""`agenttape fleet plan`: the work on many recordings, as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from agenttape_core.checks.check_file import read_checks
from agenttape_core.cli.app import OK
from agenttape_core.cli.output import cli_command
from agenttape_core.fleet.items import EXPERIMENTS, Experiment, plan_of, settings_id
from agenttape_core.fleet.judging import APP
from agenttape_core.fleet.planning import current_revision, planned, recordings, revision_of


@cli_command("agenttape fleet plan runs --experiment check --checks rules.yaml > items.jsonl")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--experiment", type=click.Choice(EXPERIMENTS), required=True, help="What is done with each recording.")
@click.option("--program", default="", metavar="TARGET", help="A function, the id of a test, or '-- COMMAND'.")
@click.option("--app", metavar="NAME", help="The program that begins each run again, as module:name.")
@click.option("--model", "candidate", metavar="MODEL", help="The model to try, as provider:model.")
@click.option(
    "--samples", type=click.IntRange(1), metavar="N", help="Pairs of samples in all; by default one of each recording."
)
@click.option("--after", metavar="URL", help="Add to the samples of an earlier plan, whose outcomes are here.")
@click.option("--live", multiple=True, metavar="CALL", help="Other calls to execute in samples. Repeatable.")
@click.option("--checks", multiple=True, metavar="FILE", help="A YAML file of rules for runs. Repeatable.")
@click.option("--revision", metavar="REVISION", help="The program's commit, branch or tag; by default the commit here.")
def plan(
    urls: tuple[str, ...],
    *,
    experiment: Experiment,
    program: str,
    app: str | None,
    candidate: str | None,
    samples: int | None,
    after: str | None,
    live: tuple[str, ...],
    checks: tuple[str, ...],
    revision: str | None,
    as_json: bool,
) -> int:
    """List the work on many recordings, as a file for any number of workers.

    URL is a folder, a file, a URL or a glob of cassettes. Prints JSON lines, sorted: the same recordings and options
    give the same bytes. Each item has the hash of the recording and of all that decides the outcome.

    With --model, pairs of samples, of MODEL and of the program's own, are drawn from each class of runs with the same
    calls, in proportion to its runs; with --after, more where the verdict isn't clear yet. The most that they cost is
    printed beforehand.
    """
    del as_json  # it's JSON anyway
    if experiment == "check" and (program or app or not checks):
        raise click.UsageError("--experiment check needs rules, and takes no program: --checks FILE")
    if experiment != "check" and bool(program) == (app is not None):
        raise click.UsageError(f"--experiment {experiment} needs a program: --program TARGET, or --app NAME")
    if (experiment == "model") != (candidate is not None):
        raise click.UsageError("--model MODEL and --experiment model belong together")
    if candidate is None and (samples or after):
        raise click.UsageError("--samples and --after are about the samples of a --model")
    for file in checks:
        read_checks(file)  # which shows what is wrong in it
    settings: dict[str, Any] = {}
    if checks:
        settings["checks"] = {Path(file).as_posix(): Path(file).read_text(encoding="utf-8") for file in checks}
    if live:
        settings["options"] = {"live": sorted(live)}
    target = program or (f"{APP}{app}" if app else "")
    commit = "" if experiment == "check" else revision_of(revision) if revision else current_revision()
    if candidate is None:
        made = planned(urls, experiment, program=target, revision=commit, settings=settings)
    else:
        from agenttape_core.fleet.sampling import bill_of, sampled
        from agenttape_core.fleet.store import outcomes_in, plans_in

        plans = list(plans_in(after)) if after is not None else []
        before = {item.id: item for one in sorted(plans, key=lambda one: len(one.items)) for item in one.items}
        outcomes = {one.item: one for one in outcomes_in(after, before)} if after is not None else {}
        common = {"experiment": experiment, "program": target, "revision": commit, "candidate": candidate}
        common["settings"] = settings_id(settings)
        made = plan_of(sampled(recordings(urls), samples, common, before, outcomes), settings)
        for line in bill_of(item for item in made.items if item.id not in outcomes).lines():
            click.echo(line, err=True)
    sys.stdout.write(made.text())
    return OK
