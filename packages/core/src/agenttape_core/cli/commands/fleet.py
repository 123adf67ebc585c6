"""`agenttape fleet`: thousands of recordings, on one machine or many."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from agenttape_core.checks.check_file import read_checks
from agenttape_core.cli.app import CASSETTE, FINDINGS, INTERRUPTED, OK
from agenttape_core.cli.cassettes import STDIN, values_given, with_values
from agenttape_core.cli.hash_seed import AnotherSeedError, pin_hash_seed
from agenttape_core.cli.labs import from_here, with_reports
from agenttape_core.cli.output import cli_command, print_json, print_table, print_text, printable, progress_bar, unread
from agenttape_core.errors import CassetteError, ConfigurationError, counted
from agenttape_core.experiments.program import is_command
from agenttape_core.fleet.forget import Forgotten, forget_older, forget_values
from agenttape_core.fleet.index import COLUMNS, QUESTIONS, ask, read_index, update_index
from agenttape_core.fleet.items import (
    EXPERIMENTS,
    Experiment,
    Item,
    Plan,
    current_revision,
    plan_of,
    planned,
    read_plan,
    recordings,
    revision_of,
    settings_id,
    shard_named,
)
from agenttape_core.fleet.judging import APP
from agenttape_core.fleet.outcomes import outcomes_in, store_plan
from agenttape_core.fleet.report import FORMS, read_report
from agenttape_core.fleet.working import Done, limited, work_all
from agenttape_core.settings import load_settings
from agenttape_core.storage import location_of
from agenttape_core.storage.files import packed_bytes
from agenttape_core.tools.reporting.forms import write_parts
from agenttape_core.tools.upkeep.age import parse_age

# -- plan: the work on many recordings, as a file.


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
        from agenttape_core.fleet.outcomes import outcomes_in, plans_in
        from agenttape_core.fleet.sampling import bill_of, sampled

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


# -- work: a shard of a plan.


_REASONS = 20  # the most that are printed
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
    for problem in [*damaged, *done.failed][:_REASONS]:
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


# -- merge: one report on the results of all shards.


@cli_command("agenttape fleet merge s3://results/nightly --report report.html")
@click.argument("stores", nargs=-1, required=True, metavar="URL...")
@click.option("--plan", default="", metavar="ID", help="The beginning of the id of a plan, if there are several.")
@with_reports(FORMS, "report")
def merge(stores: tuple[str, ...], *, plan: str, reports: tuple[str, ...], as_json: bool) -> int:
    """Write one report on the results of all shards.

    URL is the --output of agenttape fleet work; name several if your shards wrote to several. Runs that aren't the same
    as recorded are grouped by the first new request or by the broken rules, and all runs by their calls. Merge while
    shards still work, and as often as you like: the report names what isn't done yet, and the same results give the
    same bytes.

    Exits with 1 if a run isn't the same or isn't done, a case of your rules has no run, or a model is WORSE; with 3 if
    a recording can't be read.
    """
    report = read_report(stores, plan)
    for file in reports:
        write_parts(Path(file), FORMS[Path(file).suffix](report))
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(report.headline())
        for title, columns, rows in report.tables():
            if rows:
                print_text(f"\n{title}", "bold")
                print_table(columns, rows)
    if report.verdicts()["unreadable"]:
        return CASSETTE
    return FINDINGS if report.has_failed else OK


# -- index: a table of recorded calls.


@cli_command("agenttape fleet index 's3://runs/2026-11-*/*' -o index.parquet")
@click.argument("sources", nargs=-1, required=True, metavar="URL...")
@click.option(
    "-o", "--output", default="index.parquet", show_default=True, metavar="FILE", help="The index, or its URL."
)
@click.option("--with-messages", is_flag=True, help="Add requests and answers, as JSON. By default no word of them.")
def index(sources: tuple[str, ...], *, output: str, with_messages: bool, as_json: bool) -> int:
    """Write a table with a row for each recorded call, for queries and for notebooks.

    URL is a folder, a URL or a glob of recordings. Ask about them with agenttape fleet query. Run it again to add new
    recordings: it reads only those that are new or have changed. The table is a Parquet file of names and numbers: run,
    day, trajectory, place, kind, name, model, tokens, dollars, times, status, error and the hash of the request.

    Exits with 3 if a recording can't be read; the index has all others.
    """
    with progress_bar(None, "reading") as advance:
        done = update_index(output, sources, with_messages=with_messages, on_recording=advance)
    if as_json:
        plain = {"calls": done.calls, "recordings": done.recordings, "added": done.added}
        print_json({"index": output, **plain, "unreadable": dict(done.unreadable)})
    else:
        for problem in done.unreadable.values():
            print_text(problem, "red")
        numbers = f"{done.calls:,} calls of {done.recordings:,} recordings, {done.added:,} of them new"
        print_text(f"{output}: {numbers}{unread(len(done.unreadable))}")
    return CASSETTE if done.unreadable else OK


# -- query: questions about recorded calls.


_SHOWN = 20  # rows of an answer


@cli_command("agenttape fleet query --named slowest-tools")
@click.argument("sql", required=False)
@click.option(
    "--named", type=click.Choice(["list", *QUESTIONS]), help="Ask this question; list shows all, with columns."
)
@click.option(
    "--index", "path", default="index.parquet", show_default=True, metavar="FILE", help="The index, or its URL."
)
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help=f"Show N rows. By default {_SHOWN}, and all with --json."
)
def query(sql: str | None, *, named: str | None, path: str, limit: int | None, as_json: bool) -> None:
    """Answer a question about the calls in an index.

    SQL is a select statement of DuckDB over the table calls. It sees no other table, no file and no network. Write the
    index with agenttape fleet index.
    """
    if (sql is None) == (named is None):
        raise click.UsageError("write a select statement, or name a question with --named: list shows them")
    if named == "list":
        _list(as_json=as_json)
        return
    answer = ask(named or sql or "", read_index(path))
    rows = answer.slice(0, limit).to_pylist() if limit or not as_json else answer.to_pylist()
    if as_json:
        print_json({"columns": answer.column_names, "rows": rows})
        return
    shown = rows[: limit or _SHOWN]
    numbers = {name for name in answer.column_names if any(isinstance(row[name], int | float) for row in shown)}
    print_table(answer.column_names, [list(map(_cell, row.values())) for row in shown], right=frozenset(numbers))
    if answer.num_rows > len(shown):
        print_text(f"… and {answer.num_rows - len(shown):,} more rows: --limit N")


def _list(*, as_json: bool) -> None:
    columns = {name: meaning for name, (_, meaning) in COLUMNS.items()}
    if as_json:
        questions = {name: {"question": each.text, "sql": each.sql} for name, each in QUESTIONS.items()}
        print_json({"questions": questions, "columns": columns})
        return
    print_table(("name", "question"), [(name, each.text) for name, each in QUESTIONS.items()])
    print_text("")
    print_table(("column", "meaning"), list(columns.items()))


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


# -- forget: recordings of a store, erased by their age or without a value.


_BEYOND = "Not reached: older versions that a bucket keeps, the history of version control, backups, copies on CI."


@cli_command("agenttape fleet forget --older-than 90d s3://bucket/runs --dry-run")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--older-than", metavar="AGE", help="Erase recordings older than this: 90, 90d, 12h, 6w.")
@with_values
@click.option("--dry-run", is_flag=True, help="Only list what would be erased; exit with 1 if there is any.")
def forget(
    urls: tuple[str, ...],
    *,
    older_than: str | None,
    source: str | None,
    variables: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Erase old recordings of a store, or a value in all of them.

    URL is a folder, a file, a URL or a glob. --older-than erases recordings with their assets, journals and scores.
    --value replaces values as agenttape cassette redact does, and lists other files that hold one. Checksums of the
    erased and changed recordings are updated in the file of checksums here.

    Exits with 1 if something is left, with 3 if a file can't be read or written. Try it with --dry-run first.
    """
    if (older_than is None) == (source is None and not variables):
        raise click.UsageError("name one: --older-than AGE, --value - or --value-from-env NAME")
    if STDIN in urls:
        raise click.UsageError("a recording on standard input can't be erased; name a folder or a URL")
    if older_than is not None:
        limit = parse_age(older_than, "--older-than")
        found = list(forget_older(urls, limit, datetime.now(UTC), dry_run=dry_run))
    else:
        values = values_given(variables, source, urls)
        if not values:
            raise click.UsageError("standard input holds no value")
        found = list(forget_values(urls, values, load_settings(), dry_run=dry_run))
    counts: Counter[str] = Counter(each.state for each in found)
    if as_json:
        print_json({"dry_run": dry_run, "files": [asdict(each) for each in found]})
    else:
        _show(found, counts, dry_run=dry_run)
    if counts["unreadable"]:
        return CASSETTE
    return FINDINGS if counts["left"] or (dry_run and found) else OK


def _show(found: Sequence[Forgotten], counts: Counter[str], *, dry_run: bool) -> None:
    """Print a line for each file, and the sums. With `--json`, each place is listed."""
    for each in found:
        if each.state == "unreadable":
            print_text(each.why, "red")
            continue
        word = f"would be {each.state}" if dry_run and each.state != "left" else each.state
        told = f"{counted(len(each.places), 'place')} {word}" if each.places else f"{word}: {each.why}"
        print_text(f"{each.path}: {told}", "yellow" if each.state == "left" else "")
    would = "would be " if dry_run else ""
    done = {"erased": f"{would}erased", "replaced": f"{would}changed"}
    lines = [f"{counted(counts[state], 'recording')} {word}" for state, word in done.items() if counts[state]]
    left = {"left": "left", "unreadable": "can't be read"}
    lines += [f"{counts[state]} {word}" for state, word in left.items() if counts[state]]
    print_text(", ".join(lines) or "nothing to forget")
    if not dry_run and (counts["erased"] or counts["replaced"]):
        print_text(_BEYOND)
