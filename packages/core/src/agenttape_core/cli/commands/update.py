"""`agenttape update`: execute only those calls that have changed, and say before what that would take."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.output import cli_command, print_json, print_text, printable
from agenttape_core.cli.running import reported_by_pytest, run_pytest
from agenttape_core.errors import CassetteError, ConfigurationError
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.matching import Ignored
from agenttape_core.storage import Cassette, is_pending, open_cassette, pending_path
from agenttape_core.tools.processes.command import refuse_cassette
from agenttape_core.tools.processes.report import Outcome
from agenttape_core.tools.processes.run import run
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.update import PLANNING, Diverged, Plan, planned, refuse_dear, summary_of, total_of

if TYPE_CHECKING:
    from agenttape_core.pytest_plugin.planning import OwnPlan

# -- Healing the cassettes of a command, and of its processes.


_OPTIONS = {name: value for name, value in PLANNING.items() if name != "mode"}


def plan_of_command(words: Sequence[str], cassette: str | None = None) -> list[Plan]:
    """Return the plan for updating the cassettes of a command: of its main process, and of each further one.

    The command is replayed, without any real call. Its exit code doesn't count. `cassette` is its main process's, by
    default named after the command. Raises `CassetteError` if a cassette is not there, or cannot be read, and
    `ConfigurationError` if the command doesn't exist.
    """
    outcome = run(words, mode="replay", cassette=cassette, options=dict(_OPTIONS), apart=True, is_check=True)
    settings = project_settings()
    prices, drops = load_prices(settings.prices), settings.on_unused != "ignore"
    plans = []
    for address in dict.fromkeys(report.address for report in outcome.reports):
        reports = [report for report in outcome.reports if report.address == address]
        path = outcome.config.cassette_of(address)
        shown = str(outcome.config.shown(path))
        missed = [line for report in reports for line in report.missed]
        if not path.exists():
            plans.append(Plan(shown, 0, new=tuple(missed)))
            continue
        recorded = open_cassette(path)
        unused = set.intersection(*(set(report.unused) for report in reports))
        changed = {number for report in reports for number in report.elsewise}
        diverged = Diverged(changed, missed, unused, drops)
        failed = tuple(report.failed_blocks.partition("\n")[0] for report in reports if report.failed_blocks)
        plan = planned(recorded, recorded.header.volatile.timings.get, diverged, prices, shown)
        plans.append(replace(plan, failed=failed))
    return plans


def update_command(
    words: Sequence[str],
    cassette: str | None = None,
    *,
    apart: bool = False,
    pending: bool = False,
    max_usd: float | None = None,
) -> list[Outcome]:
    """Run a command, make the changed calls for real, and replay it.

    With `apart`, the command's standard output goes to standard error. Returns the outcomes of the run and of the
    replay; if the recording waits for review (`pending`), there's no replay.
    """
    options = {"review": True} if pending else {}
    updated = run(words, mode="update", cassette=cassette, options=options, apart=apart, max_usd=max_usd)
    if any(is_pending(one.path.name) for one in updated.made):
        return [updated]
    replayed = run(words, mode="replay", cassette=cassette, options={"live": []}, apart=True, is_check=True)
    return [updated, replayed]


@cli_command("agenttape update tests/test_support.py")
@click.argument("words", nargs=-1, metavar="[TESTS...] | [--] COMMAND...")
@click.option("--dry-run", is_flag=True, help="Only show what would be recorded; exit with 1 if there is anything.")
@click.option(
    "--max-usd",
    type=float,
    metavar="DOLLARS",
    help="Execute nothing if it may cost more, and stop before a new call of a model that would.",
)
@click.option("--review", is_flag=True, help="Let what is recorded wait for `agenttape review`.")
@click.option("--yes", is_flag=True, help="Execute without asking.")
@click.option("--cassette", metavar="NAME", help="Name or path of the cassette of a command.")
def update(
    words: tuple[str, ...],
    *,
    dry_run: bool,
    max_usd: float | None,
    review: bool,
    yes: bool,
    cassette: str | None,
    as_json: bool,
) -> int:
    """Record only the calls that changed, and what depends on them.

    TESTS are files, folders or ids of tests, by default all that pytest finds; COMMAND is a command or a function, as
    for `agenttape record`. They are replayed first, offline, to find the changes, and at the end once more.

    Exits with 0 if all is well in the end, and with 1 if a test fails, the limit does not suffice, or something is left
    to do.
    """
    if cassette is None:
        refuse_cassette(words)
    of_tests = cassette is None and _names_tests(words)
    found, refused = _plans_of_tests(words) if of_tests else ({}, ())
    planned_here = [] if of_tests else plan_of_command(words, cassette)
    plans = {name: one.plan for name, one in found.items()} | {plan.path: plan for plan in planned_here}
    refused = refused or ([] if plans else ["nothing was replayed: no test has a cassette"])
    total = total_of(list(plans.values()))
    changed = {name: plan for name, plan in plans.items() if not plan.is_clean}
    lines = ["\n".join(plan.lines()) for plan in changed.values()]
    lines += [summary_of(list(plans.values()))] if len(plans) != 1 or not changed else []
    for line in [] if as_json else lines:
        print_text(line)
    for line in refused:
        click.echo(printable(line), err=True)
    if not changed or dry_run:
        if as_json:
            print_json({"plans": {name: plan.to_dict() for name, plan in plans.items()}, "updated": False})
        return FINDINGS if changed or refused else OK
    try:
        refuse_dear(total, max_usd)
    except ConfigurationError as error:
        click.echo(printable(str(error)), err=True)
        return FINDINGS
    if not yes and not _agreed():
        return FINDINGS
    before = _opened(changed.values())
    if of_tests:
        tests = list(dict.fromkeys(test for name in changed for test in found[name].tests))
        code = _update_tests(tests, changed.values(), max_usd, apart=as_json, pending=review)
    else:
        code = _printed(update_command(words, cassette, apart=as_json, pending=review, max_usd=max_usd))
    _print_changes(plans, _changes(before), updated=code == OK, as_json=as_json)
    return FINDINGS if refused else code


def _print_changes(plans: Mapping[str, Plan], changes: Mapping[str, Any], *, updated: bool, as_json: bool) -> None:
    if as_json:
        facts = {"plans": {name: plan.to_dict() for name, plan in plans.items()}, "updated": updated}
        print_json({**facts, "changes": {path: comparison.to_dict() for path, comparison in changes.items()}})
        return
    for path, comparison in changes.items():
        print_text("\n".join([path, *_answers(comparison)]))
    if _waits(plans.values()):
        print_text("to review:  agenttape review")


def _answers(comparison: Any) -> Iterator[str]:
    """Yield the calls that have changed with the words of their answers, for the question was just edited."""
    from agenttape_core.tools.review.pending import sort_of

    for change in comparison.changes:
        said = [found for found in change.differences if sort_of(found.path) != "tokens"]
        answered = tuple(found for found in said if found.path.startswith("outcome"))
        is_answer = change.what == "interaction" and change.state == "changed"
        yield f"{replace(change, differences=answered if is_answer else tuple(said))}"
        if is_answer and not answered:
            yield "    the same answer as before"


def _waits(plans: Iterable[Plan]) -> bool:
    """Return whether anything that was updated waits for review."""
    return any(pending_path(Path(plan.path)).exists() for plan in plans if not plan.is_clean)


def _names_tests(words: Sequence[str]) -> bool:
    """Return whether words name files, folders or ids of tests: a command is a program, and no path of the project."""
    return all(Path(word.partition("::")[0]).exists() for word in words)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        click.echo("nothing was recorded: add --yes to update without being asked", err=True)
        return False
    return click.confirm("Execute these calls?", default=False, err=True)


def _opened(plans: Any) -> dict[str, Cassette]:
    """Return the cassettes before the update, by their paths as shown in messages."""
    found = {}
    for plan in plans:
        try:
            found[plan.path] = open_cassette(plan.path)
        except CassetteError:  # there is none so far
            continue
    return found


def _changes(before: Mapping[str, Cassette]) -> dict[str, Any]:
    from agenttape_core.tools.compare import Comparison

    now = {path: pending_path(Path(path)) for path in before}
    files = {path: waiting if waiting.exists() else path for path, waiting in now.items()}
    compared = {
        path: Comparison(old, open_cassette(files[path]), Ignored(), steps=False) for path, old in before.items()
    }
    return {path: comparison for path, comparison in compared.items() if comparison}


def _plans_of_tests(words: Sequence[str]) -> tuple[dict[str, OwnPlan], Sequence[str]]:
    """Return the plans of tests, by the names of their cassettes, and lines about tests without one."""
    from agenttape_core.pytest_plugin.planning import lines_of_refused, read_plans, read_refused

    with reported_by_pytest(words, ["--cassette-dry-run"]) as (file, _):
        found, refused = read_plans(file), read_refused(file)
    return found, lines_of_refused(refused) if refused else ()


def _update_tests(
    tests: Sequence[str], plans: Iterable[Plan], max_usd: float | None, *, apart: bool, pending: bool
) -> int:
    limit = [] if max_usd is None else [f"--cassette-max-usd={max_usd}"]
    waits = ["--cassette-review"] if pending else []
    updated = run_pytest(tests, ["--rerecord=changed", *limit, *waits], quietly=apart)
    if updated.returncode or _waits(plans):  # a waiting recording was checked, and replays once it's accepted
        return FINDINGS if updated.returncode else OK
    return FINDINGS if run_pytest(tests, quietly=apart).returncode else OK


def _printed(outcomes: Sequence[Outcome]) -> int:
    """Print how a command was updated, and return its exit code."""
    failures = [line for outcome in outcomes for line in outcome.failures()]
    for line in [*outcomes[0].lines(), *failures]:
        click.echo(f"agenttape: {printable(line)}", err=True)
    return next((outcome.exit_code for outcome in outcomes if outcome.exit_code), OK)
