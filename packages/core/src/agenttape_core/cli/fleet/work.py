"""`agenttape fleet work`: a shard of a plan."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import suppress

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, INTERRUPTED, OK
from agenttape_core.cli.cassettes import STDIN
from agenttape_core.cli.hash_seed import AnotherSeedError, pin_hash_seed
from agenttape_core.cli.output import cli_command, print_json, printable, progress_bar
from agenttape_core.cli.programs import from_here
from agenttape_core.errors import CassetteError, ConfigurationError, counted
from agenttape_core.experiments.program import is_command
from agenttape_core.fleet.items import Item, Plan, read_plan, shard_named
from agenttape_core.fleet.planning import current_revision
from agenttape_core.fleet.spending import limited
from agenttape_core.fleet.store import outcomes_in, store_plan
from agenttape_core.fleet.working import Done, work_all
from agenttape_core.storage import location_of
from agenttape_core.storage.files import packed_bytes

_SHOWN = 20  # the most reasons that are printed
_COMMIT = re.compile(r"[0-9a-f]{40,64}(?:\+[0-9a-f]+)?")


@cli_command("agenttape fleet work items.jsonl --shard 7/50 --output s3://fleet/tonight")
@click.argument("file", metavar="ITEMS")
@click.option("--shard", default="1/1", metavar="N/TOTAL", help="The part to do, or env for the variables of CI.")
@click.option("--output", "-o", required=True, metavar="URL", help="The folder or the URL of the outcomes.")
@click.option(
    "--concurrency", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Do N items at a time."
)
@click.option("--max-usd", type=click.FloatRange(0), metavar="DOLLARS", help="The limit of all shards together.")
def work(file: str, *, shard: str, output: str, concurrency: int, max_usd: float | None, as_json: bool) -> int:
    """Do a shard of a plan, and store an outcome for each recording.

    ITEMS is the file of the plan, its URL, or - for standard input.

    An outcome that is there already isn't made again: run it again after an interruption, or on more machines. Shards
    take about the same time. With `--shard env`, CI or Kubernetes numbers them. Shards that write to a URL share the
    money of --max-usd; those that write to folders get an equal part each.

    Exits with 0 if each item of the shard has an outcome, whatever its verdict: `agenttape fleet merge` judges.
    """
    plan = _read(file)
    number, total = shard_named(shard, os.environ)
    items = plan.shard(number, total)
    _pin_hash_seed(items, file, plan)
    _expect_revision(plan)
    store_plan(plan, output)
    if max_usd is not None:
        _refuse_limit(items, output, max_usd)
    limit = limited(output, plan.id, max_usd, (number, total))
    with limit, from_here(), progress_bar(len(items), "working") as advance:
        done = work_all(items, output=output, settings=plan.settings, concurrency=concurrency, on_item=advance)
    return _finished(done, len(items), f"shard {number}/{total}", as_json=as_json)


def _read(file: str) -> Plan:
    try:
        text = sys.stdin.read() if file == STDIN else packed_bytes(location_of(file)).decode()
    except (CassetteError, ValueError) as error:
        raise ConfigurationError(f"{file}: the plan can't be read: {error}") from None
    return read_plan(text, file)


def _expect_revision(plan: Plan) -> None:
    """Refuse another revision of the program than the planned one, and say so if they can't be compared."""
    planned, here = plan.items[0].revision, ""
    if not planned:
        return
    with suppress(ConfigurationError):
        here = current_revision()
    if not (here and _COMMIT.fullmatch(planned)):
        what = "this folder isn't in a repository" if not here else "it isn't a commit"
        click.echo(f"agenttape: revision {printable(planned)} of the plan can't be compared: {what}", err=True)
    elif here != planned:
        raise ConfigurationError(
            f"the plan is of revision {planned}, and this folder has {here}\n"
            f"  check it out:  git checkout {planned.partition('+')[0]}\n  or plan again:  agenttape fleet plan"
        )


def _pin_hash_seed(items: list[Item], file: str, plan: Plan) -> None:
    """Continue only with the hash seed of the first recording. Each process of a command gets its own anyway."""
    if not items or items[0].experiment == "check" or is_command(items[0].program):
        return
    try:
        with suppress(CassetteError):  # the work says what is wrong with it
            pin_hash_seed(items[0].cassette)
    except AnotherSeedError:
        if file == STDIN:  # for the process that takes the place of this one
            with tempfile.TemporaryFile() as again:
                again.write(plan.text().encode())
                again.seek(0)
                os.dup2(again.fileno(), sys.stdin.fileno())
        raise


def _refuse_limit(items: list[Item], output: str, dollars: float) -> None:
    """Refuse a limit that can't be kept, before anything is paid."""
    from agenttape_core.fleet.sampling import refuse_unpriced

    if is_command(items[0].program if items else ""):
        raise ConfigurationError("the limit of --max-usd can't be kept for a command, whose processes aren't watched")
    there = {one.item for one in outcomes_in(output, {item.id for item in items})}
    refuse_unpriced([item for item in items if item.candidate and item.id not in there], dollars)


def _finished(done: Done, count: int, name: str, *, as_json: bool) -> int:
    """Print the end of the work, and return the exit code."""
    made = done.verdicts.total()
    if as_json:
        print_json(
            {"items": count, "known": done.known, "verdicts": dict(done.verdicts), "failed": done.failed}
            | {"damaged": sorted(done.damaged), "stopped": done.stopped, "is_whole": done.is_whole}
        )
    else:
        verdicts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(done.verdicts.items()))
        told = f"{name}: {counted(count, 'item')}, {done.known} done before, {made} now"
        click.echo(f"{told} ({verdicts})" if verdicts else told)
    damaged = (f"{name}: not the outcome of its item; made again" for name in sorted(done.damaged))
    for problem in [*damaged, *done.failed][:_SHOWN]:
        click.echo(printable(problem), err=True)
    missing = count - done.known - made
    if missing:
        why = f": {done.stopped}" if done.stopped else ""
        click.echo(
            f"agenttape: {counted(missing, 'item')} not done{why}; run it again to do only what is missing", err=True
        )
    if not done.is_whole:
        return INTERRUPTED
    return CASSETTE if done.failed else FINDINGS if done.stopped else OK
