"""`agenttape cassette checksum`: the checksums of cassettes in a file for git."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agenttape_core.cli.cassettes import Found, found_in, paths_argument
from agenttape_core.cli.output import cli_command, print_json, print_text, progress
from agenttape_core.errors import counted
from agenttape_core.storage import open_cassette
from agenttape_core.tools.upkeep.checksums import FILE, checksums_of, read_checksums, write_checksums


@cli_command("agenttape cassette checksum tests")
@paths_argument
@click.option(
    "-o", "--output", "file", default=FILE, show_default=True, type=click.Path(path_type=Path), metavar="FILE"
)
def checksum(paths: tuple[str, ...], *, file: Path, as_json: bool) -> None:
    """Keep a checksum of each recorded call in a file for git.

    Ids, times, counts and dates that differ in each recording are left out. agenttape check compares cassettes with the
    file, and fails if a cassette was changed or is gone.
    """
    found = {}
    for each in progress(found_in(paths), "reading"):
        path = _path(each)
        open_cassette(path)  # a file that isn't a cassette gets no checksum
        found[Path(os.path.relpath(path, file.parent)).as_posix()] = checksums_of(path)
    kept = {name: old for name, old in read_checksums(file).items() if (file.parent / name).is_file()}
    write_checksums(file, kept | found)
    if as_json:
        print_json({"written": str(file), "cassettes": sorted(found)})
    else:
        print_text(f"checksums of {counted(len(found), 'cassette')} written to {file}")


def _path(found: Found) -> Path:
    if found.path is None:
        raise click.UsageError(f"{found.shown} isn't a local file; only those can have checksums")
    return found.path
