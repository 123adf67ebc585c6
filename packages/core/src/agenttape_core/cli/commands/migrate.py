"""`agenttape cassette migrate`: cassettes of older formats."""

from __future__ import annotations

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, Found, found_in, paths_argument, reading
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import CassetteError
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.tools.rewrite.migrating import Migration, migration_of
from agenttape_core.tools.rewrite.migrating import migrate as migrate_one


class _Done(NamedTuple):
    shown: str  # the file
    migration: Migration | None
    problem: str = ""


@cli_command("agenttape cassette migrate tests --dry-run")
@paths_argument
@click.option("--dry-run", is_flag=True, help="Only list the cassettes to migrate; exit with 1 if there is any.")
def migrate(paths: tuple[str, ...], *, dry_run: bool, as_json: bool) -> int:
    """Upgrade cassettes of older formats in place.

    Only cassettes that need a newer format get it. Most cassettes of format 1 are up to date, and don't change.
    """
    if STDIN in paths and not dry_run:
        raise click.UsageError("a cassette on standard input cannot be replaced; name a file, or use --dry-run")
    done = [_migrated(found, dry_run=dry_run) for found in reading(found_in(paths), "migrating")]
    if as_json:
        print_json([_plain(each, dry_run=dry_run) for each in done])
    else:
        for each in done:
            print_text(_report_of(each, dry_run=dry_run), "red" if each.problem else "")
    if any(each.problem for each in done):
        return CASSETTE
    return FINDINGS if dry_run and any(each.migration and each.migration.is_due for each in done) else OK


def _migrated(found: Found, *, dry_run: bool) -> _Done:
    try:
        if dry_run:
            return _Done(found.shown, migration_of(found.open()))
        return _Done(found.shown, migrate_one(found.file.location))
    except CassetteError as error:
        return _Done(found.shown, None, str(error))


def _report_of(done: _Done, *, dry_run: bool) -> str:
    migration = done.migration
    if migration is None:
        return done.problem
    if not migration.is_due:
        return f"{done.shown}: format {migration.version}, up to date"
    word = "would be migrated" if dry_run else "migrated"
    if migration.version == migration.needed:
        return f"{done.shown}: {word}: ids and tokens of its answers to the volatile block"
    return f"{done.shown}: {word} from format {migration.version} to {migration.needed}"


def _plain(done: _Done, *, dry_run: bool) -> dict[str, object]:
    migration = done.migration
    if migration is None:
        return {"path": done.shown, "problem": done.problem}
    row = {"path": done.shown, "format": migration.version, "needed": migration.needed}
    return {**row, "migrated": migration.is_due and not dry_run}
