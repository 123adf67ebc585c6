"""`agenttape score`: scores of recorded runs, which are not run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import click

from agenttape_core.checks.checking import Check, check_run
from agenttape_core.checks.judges import JUDGE, recording_judges
from agenttape_core.checks.run import Run
from agenttape_core.checks.scores import Scores, hash_of, read_scores, scores_path
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.words import checks_of
from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import found_in, paths_argument
from agenttape_core.cli.output import print_json, print_table, print_text, progress, verb
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.reporting import Finding


class _Row(NamedTuple):
    run: str
    scores: Mapping[str, float | bool]
    is_stale: bool
    findings: tuple[Finding, ...]


@verb("agenttape score runs --evaluator evals:polite")
@paths_argument
@click.option("--evaluator", multiple=True, metavar="NAME", help="An evaluator, module:function. Repeatable.")
@click.option("--replace", is_flag=True, help="Score anew what has a score of this name; else that one is kept.")
@click.option("--remove", multiple=True, metavar="SCORE", help="Remove a score. Repeatable.")
@click.option("--only", multiple=True, metavar="SCORE", help="Print only this score. Repeatable.")
@click.option("--record-judges", is_flag=True, help="Let judges ask what is not recorded, and record it.")
def score(
    paths: tuple[str, ...],
    *,
    evaluator: tuple[str, ...],
    replace: bool,
    remove: tuple[str, ...],
    only: tuple[str, ...],
    record_judges: bool,
    as_json: bool,
) -> int:
    """Score recorded runs, or print their scores.

    Adds to their scores, replaces or removes them; without an option, prints them.

    Scores stand in NAME.scores.json beside the cassette, which stays as it is. Those of another recording are dropped.
    """
    checks = [check for name in evaluator for check in checks_of("judged", name)]
    prices = load_prices(project_settings().prices)
    found = [each for each in found_in(paths) if not each.shown.endswith(JUDGE)]
    rows, has_calls = [], False
    with recording_judges() if record_judges else nullcontext():
        for each in progress(found, "scoring"):
            run = run_of_cassette(each.open(), prices, each.shown)
            has_calls = has_calls or bool(run.happened or run.asked or run.answer)
            rows.append(_scored(run, checks, replace=replace, remove=remove))
    names = only or tuple(dict.fromkeys(name for row in rows for name in row.scores))
    if as_json:
        print_json([_plain(row, names) for row in rows])
    else:
        _print(rows, names)
    if checks and not has_calls:
        click.echo("nothing was scored: no run holds a call or an answer", err=True)
        return FINDINGS
    return FINDINGS if any(row.findings for row in rows) else OK


def _scored(run: Run, checks: Sequence[Check], *, replace: bool, remove: Sequence[str]) -> _Row:
    before, of = read_scores(run), hash_of(run)
    is_stale = before is not None and before.of != of
    kept = dict(before.values) if before is not None and not is_stale else {}
    values = {name: value for name, value in kept.items() if name not in remove}
    wanted = [check for check in checks if replace or check.text.removeprefix("judged ") not in values]
    judged = check_run(run, wanted).judged
    for each in judged:
        values.update((name, value) for name, value in each.scores if replace or name not in values)
    if (checks or remove) and (before is None or is_stale or values != before.values):
        scores_path(run).write_text(Scores(of, values).text(), encoding="utf-8", newline="\n")
    failed = tuple(finding for each in judged if not each.scores for finding in each.findings)
    return _Row(run.name, values, is_stale and not checks, failed)


def _plain(row: _Row, names: Iterable[str]) -> dict[str, Any]:
    scores = {name: row.scores[name] for name in names if name in row.scores}
    return {
        "run": row.run,
        "scores": scores,
        "stale": row.is_stale,
        "findings": [each.to_dict() for each in row.findings],
    }


def _print(rows: Sequence[_Row], names: Sequence[str]) -> None:
    cells = [(row.run, *(_shown(row.scores.get(name)) for name in names)) for row in rows]
    print_table(("run", *names), cells, right=frozenset(names))
    for row in rows:
        if row.is_stale:
            print_text(f"{row.run}: its scores are those of another recording", "yellow")
        for finding in row.findings:
            print_text(str(finding), "red")


def _shown(value: float | bool | None) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else f"{value:g}"
