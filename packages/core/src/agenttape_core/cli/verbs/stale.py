"""`agenttape stale`: cassettes that a recording made today would differ from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import found_in, paths_argument
from agenttape_core.cli.output import print_json, print_text, progress, unread, verb
from agenttape_core.errors import CassetteError, counted
from agenttape_core.settings import load_settings
from agenttape_core.tools.upkeep.age import parse_age
from agenttape_core.tools.upkeep.facts import Facts, facts_of
from agenttape_core.tools.upkeep.retirements import load_retirements
from agenttape_core.tools.upkeep.staleness import ALL_CHECKS, CHECKS, Check, Finding, installed_version, stale_among
from agenttape_core.tools.upkeep.verified import verified_in


@verb("agenttape stale tests --max-age 90d")
@paths_argument
@click.option("--max-age", metavar="AGE", help="The greatest age of a cassette: 90, 90d, 12h, 6w. By default any.")
@click.option(
    "--check",
    "checks",
    multiple=True,
    type=click.Choice(ALL_CHECKS),
    help="A check to make; by default all but verified. Repeatable.",
)
def stale(paths: tuple[str, ...], *, max_age: str | None, checks: tuple[Check, ...], as_json: bool) -> int:
    """List cassettes that are too old.

    Exits with 1 if there are any.

    Checks their age, whether their models were retired, whether other versions of the packages are installed, and
    whether cassettes that were recorded later hold another system prompt or tool at the same place of the program. With
    --check verified, lists those that pytest --cassette-lab=live has not compared with a run for real, or too long ago.
    """
    settings = load_settings()
    limit = parse_age(max_age, "--max-age") if max_age is not None else None
    retirements = load_retirements(settings.retirements)
    facts, broken = _read(paths)
    found = stale_among(
        facts,
        datetime.now(UTC),
        max_age=limit,
        retirements=retirements,
        installed=installed_version,
        checks=checks or CHECKS,
        verified=_verified(facts) if "verified" in checks else {},
    )
    if as_json:
        print_json([*(finding.to_dict() for finding in found), *({"path": p, "problem": e} for p, e in broken)])
    else:
        _show(found, broken, len(facts))
    if broken:
        return CASSETTE
    return FINDINGS if any(finding.is_stale for finding in found) else OK


def _verified(facts: Sequence[Facts]) -> Mapping[str, datetime]:
    moments = verified_in(Path.cwd())
    return {each.path: moments[full] for each in facts if (full := Path(each.path).absolute()) in moments}


def _read(paths: Sequence[str]) -> tuple[list[Facts], list[tuple[str, str]]]:
    facts, broken = [], []
    for found in progress(found_in(paths), "reading"):
        try:
            facts.append(facts_of(found.shown, found.open()))
        except CassetteError as error:
            broken.append((found.shown, str(error)))
    return facts, broken


def _show(found: Sequence[Finding], broken: Sequence[tuple[str, str]], count: int) -> None:
    for finding in found:
        print_text(f"{finding.path}: {finding.check}: {finding.what}", "yellow" if finding.is_stale else "dim")
    for _, problem in broken:
        print_text(problem, "red")
    stale = len({finding.path for finding in found if finding.is_stale})
    verb_form = "is" if stale == 1 else "are"
    line = f"{stale} of {counted(count, 'cassette')} {verb_form} stale" if stale else f"no cassette of {count} is stale"
    print_text(f"{line}{unread(len(broken))}")
