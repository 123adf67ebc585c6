"""`agenttape cassette prune`: unneeded files beside cassettes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, paths_argument
from agenttape_core.cli.output import cli_command, print_json, print_text, progress, size_of
from agenttape_core.errors import CassetteError, CassetteNotFoundError, counted, shown_path
from agenttape_core.storage import recording_process
from agenttape_core.tools.upkeep.garbage import (
    Garbage,
    cassettes_around,
    cassettes_of_no_test,
    garbage_of,
    remove,
    remove_garbage_of,
    whole_cassette,
)


@cli_command("agenttape cassette prune tests --dry-run")
@paths_argument
@click.option("--dry-run", is_flag=True, help="Only list the files; exit with 1 if there is any.")
@click.option(
    "--tests",
    multiple=True,
    metavar="PATH",
    help="Collect these tests, and find cassettes of no test, too. Repeatable.",
)
def prune(paths: tuple[str, ...], *, dry_run: bool, tests: tuple[str, ...], as_json: bool) -> int:
    """Delete leftover files next to cassettes.

    These are assets that no cassette refers to, locks that no process holds, remains of interrupted writes, and empty
    journals. Journals that can be recovered are listed, and never deleted. --tests runs pytest --collect-only.
    """
    delete = not dry_run
    orphans = [path for path in cassettes_of_no_test(tests) if recording_process(path) is None] if tests else []
    found, problems = _orphaned(orphans, delete=delete)
    for cassette in progress(_cassettes(paths, orphans if delete else ()), "looking"):
        try:
            kept = [garbage for garbage in garbage_of(cassette) if not garbage.is_removable or not delete]
            found += [*(remove_garbage_of(cassette) if delete else ()), *kept]
        except CassetteError as error:
            problems.append(str(error))
    if as_json:
        print_json({"deleted": delete, "found": [_plain(garbage) for garbage in found], "problems": problems})
    else:
        _show(found, problems, delete=delete)
    if problems:
        return CASSETTE
    return FINDINGS if found and not delete else OK


def _orphaned(orphans: Sequence[Path], *, delete: bool) -> tuple[list[Garbage], list[str]]:
    """Return the cassettes that belong to no test, removed if asked for, and the problems with that."""
    found, problems = [], []
    for path in orphans:
        garbage = whole_cassette(path)
        try:
            if delete:
                remove(path)
            found.append(garbage)
        except CassetteError as error:
            problems.append(str(error))
    return found, problems


def _cassettes(paths: Sequence[str], removed: Sequence[Path]) -> list[Path]:
    """Return the cassettes to look beside: those that paths mean, and those that were just removed."""
    for path in paths:
        if path == STDIN or "://" in path:
            raise click.UsageError(f"{path} is neither a folder nor a file; name a cassette, or a folder of them")
        if not Path(path).exists():
            raise CassetteNotFoundError(path, "there is no such file or folder")
    meant = [cassette for path in paths or (".",) for cassette in cassettes_around(Path(path))]
    return list(dict.fromkeys([*meant, *removed]))


def _plain(garbage: Garbage) -> dict[str, Any]:
    return {**garbage.to_dict(), "path": shown_path(garbage.path)}


def _show(found: Sequence[Garbage], problems: Sequence[str], *, delete: bool) -> None:
    for garbage in found:
        word = "kept" if not garbage.is_removable else "removed" if delete else "found"
        print_text(
            f"{word} {garbage.kind} {shown_path(garbage.path)}: {garbage.why}", "" if garbage.is_removable else "yellow"
        )
    for problem in problems:
        print_text(problem, "red")
    gone = [garbage for garbage in found if garbage.is_removable]
    if not found and not problems:
        print_text("no unneeded files")
    elif gone:
        files, size = counted(len(gone), "file"), size_of(sum(garbage.size for garbage in gone))
        print_text(f"{files} removed, {size}" if delete else f"{files} can be removed, {size}")
