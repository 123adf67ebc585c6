"""`agenttape lab mutants`: the small edits of a program that no cassette would notice."""

from __future__ import annotations

import click

from agenttape_core.cli.app import FINDINGS, INTERRUPTED, OK
from agenttape_core.cli.labs import (
    finished,
    lab_command,
    recording_of,
    with_cassette,
    with_jobs,
    with_report,
    with_resume,
    with_runs,
    with_seed,
)
from agenttape_core.cli.output import progress_bar
from agenttape_core.experiments.engine import SEED
from agenttape_core.experiments.strategies.mutants import MutationScore
from agenttape_core.experiments.strategies.mutants import mutants as run_mutants
from agenttape_core.experiments.strategies.mutants.search import MOST


@lab_command("agenttape lab mutants tests --only prompts,tools --base main --fail-under 0.8")
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@with_cassette
@click.option("--only", metavar="KINDS", help="Edit only these: some of prompts, tools, schemas.")
@click.option("--source", multiple=True, metavar="PATH", help="Edit this file or folder. Repeatable.")
@click.option("--base", metavar="REV", help="Edit only lines that have changed since this revision of git.")
@with_runs(MOST, "Try N edits at most.")
@with_seed(SEED)
@click.option("--mutant", metavar="ID", help="Try only this edit.")
@click.option("--live", metavar="NAMES", help="Call these kinds or names for real, such as tool.")
@with_jobs
@with_resume
@click.option("--fail-under", type=click.FloatRange(0, 1), metavar="SHARE", help="Exit with 1 if less is killed.")
@with_report
def mutants(
    targets: tuple[str, ...],
    *,
    cassette: str | None,
    only: str | None,
    source: tuple[str, ...],
    base: str | None,
    runs: int,
    seed: int,
    mutant: str | None,
    live: str | None,
    jobs: int,
    resume: str | None,
    fail_under: float | None,
    reports: tuple[str, ...],
    as_json: bool,
) -> int:
    """Edit prompts, tools and schemas, one at a time, and list the edits that no test catches.

    TARGET is a file, a folder or the id of a test, by default all that pytest finds; or a function with --cassette, as
    module:function or path/to/file.py:function. Edits are made when a file is imported, in separate processes: no file
    changes. Nothing is called for real but what --live names, with the edits in it.

    Exits with 1 if less than --fail-under is killed, or a test fails without an edit; with --mutant, if it survives.
    """
    path = recording_of(cassette)
    if path is not None and len(targets) != 1:
        raise click.UsageError("--cassette is for one function: name it, and nothing else")
    with progress_bar(None, "editing") as advance:
        found = run_mutants(
            targets[0] if path is not None else list(targets),
            path,
            only=_words(only),
            source=source,
            base=base,
            runs=runs,
            seed=seed,
            mutant=mutant,
            live=_words(live),
            jobs=jobs,
            resume=resume,
            on_run=advance,
        )
    text = "\n".join(map(str, found.judged)) if mutant is not None else None
    finished(found, reports, as_json=as_json, text=text)
    return _code(found, fail_under, mutant)


def _words(given: str | None) -> list[str]:
    return [one.strip() for one in (given or "").split(",") if one.strip()]


def _code(found: MutationScore, fail_under: float | None, mutant: str | None) -> int:
    if not found.is_whole:
        return INTERRUPTED
    if mutant is not None:
        return FINDINGS if found.survivors else OK
    is_under = fail_under is not None and found.score.share < fail_under
    return FINDINGS if is_under or found.excluded else OK
