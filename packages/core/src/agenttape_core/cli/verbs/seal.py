"""`agenttape cassette seal`: vouch for cassettes, and see what was changed since."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import Found, found_in, paths_argument
from agenttape_core.cli.output import print_json, print_text, progress, verb
from agenttape_core.errors import CassetteError, counted
from agenttape_core.storage import open_cassette
from agenttape_core.tools.upkeep.seals import FILE, Seal, broken, read_seals, seal_of, write_seals


@verb("agenttape cassette seal tests --check")
@paths_argument
@click.option("--check", "checks", is_flag=True, help="Compare with the seals that are there, and write nothing.")
@click.option("--seals", "file", default=FILE, show_default=True, type=click.Path(path_type=Path), metavar="FILE")
def seal(paths: tuple[str, ...], *, checks: bool, file: Path, as_json: bool) -> int:
    """Keep a hash of each recorded call in a file for git.

    Ids, times, counts and dates that each recording makes anew are no part of it. A file that cannot be read as a
    cassette is not sealed. With --check, exits with 1 if a cassette is no longer as it was sealed, or was never sealed,
    or if a sealed one is gone.
    """
    seals = read_seals(file)
    found = {_name(each, file): each for each in progress(found_in(paths), "reading")}
    now, unreadable = _sealed({name: _path(each) for name, each in found.items()}, checks=checks)
    if not checks:
        write_seals(file, {**{name: old for name, old in seals.items() if _is_there(name, file)}, **now})
    problems = {**_problems(seals, now, file), **unreadable} if checks else {}
    if as_json:
        print_json({"seals": str(file), "sealed": sorted(now), "problems": problems})
    elif checks:
        for name, said in problems.items():
            print_text(f"{name}: {', '.join(said)}", "red")
        print_text(f"{counted(len(found), 'cassette')} examined, {len(problems)} not as sealed")
    else:
        print_text(f"{counted(len(now), 'cassette')} sealed in {file}")
    return FINDINGS if problems else OK


def _sealed(paths: dict[str, Path], *, checks: bool) -> tuple[dict[str, Seal], dict[str, list[str]]]:
    """Return the seals of cassettes as they are, and in a check why others have none.

    Raises:
        CassetteError: If one that is to be sealed cannot be read.
    """
    seals, unreadable = {}, {}
    for name, path in paths.items():
        try:
            if not checks:
                open_cassette(path)
            seals[name] = seal_of(path)
        except CassetteError as error:
            if not checks:
                raise
            unreadable[name] = [f"cannot be read: {error.problem}"]
    return seals, unreadable


def _problems(seals: dict[str, Seal], now: dict[str, Seal], file: Path) -> dict[str, list[str]]:
    found = {name: broken(seals[name], seal) if name in seals else ["never sealed"] for name, seal in now.items()}
    gone = {name: ["sealed, and gone"] for name in seals if not _is_there(name, file)}
    return {name: said for name, said in sorted((found | gone).items()) if said}


def _name(found: Found, file: Path) -> str:
    return Path(os.path.relpath(_path(found), file.parent)).as_posix()


def _path(found: Found) -> Path:
    if found.path is None:
        raise click.UsageError(f"{found.shown} isn't a local file; only those can be sealed")
    return found.path


def _is_there(name: str, file: Path) -> bool:
    return (file.parent / name).is_file()
