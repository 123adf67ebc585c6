"""`agenttape cassette recover`: cassettes from recordings that were cut off."""

from __future__ import annotations

from pathlib import Path

import click

from agenttape_core import storage
from agenttape_core.cli.app import CASSETTE, OK
from agenttape_core.cli.cassettes import alike, named
from agenttape_core.cli.output import cli_command, print_json, print_text, progress
from agenttape_core.errors import CassetteError, CassetteNotFoundError, shown_path
from agenttape_core.tools.rewrite.scanning import journals_in


@cli_command("agenttape cassette recover cassettes")
@click.argument("path", default=".", type=click.Path(readable=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only list what can be recovered.")
def recover(path: Path, *, dry_run: bool, as_json: bool) -> int:
    """Recover recordings that were cut off.

    PATH is a journal, the path or name of a cassette, or a folder for all below it. A good cassette is never replaced:
    the recovered one is NAME.recovered.yaml.
    """
    journals = _journals(path)
    results = [(journal, *_recovered(journal, dry_run=dry_run)) for journal in progress(journals, "recovering")]
    if as_json:
        print_json([{"journal": str(j), "written": w or None, "problem": p or None} for j, w, p in results])
    elif not results:
        print_text("nothing to recover")
    else:
        for journal, written, problem in results:
            print_text(problem or shown_path(journal) + (f" is now {written}" if written else " can be recovered"))
    return CASSETTE if any(problem for _, _, problem in results) else OK


def _journals(path: Path) -> list[Path]:
    """Return the journals that a path or a name means.

    Raises `CassetteNotFoundError` if there's no cassette of this name, and `UsageError` if several have it.
    """
    if path.is_dir():
        return journals_in(path)
    if left := storage.leftover_journals(path):
        return left
    if path.is_file():
        return [path]
    begun = map(storage.target_of, journals_in(Path()))
    cassette = named(str(path), [target for target in begun if target is not None])
    if cassette is None:
        remedy = alike(str(path)) or "name a journal, a cassette or a folder"
        raise CassetteNotFoundError(path, "there is no such file or folder", remedy=remedy)
    return storage.leftover_journals(cassette)


def _recovered(journal: Path, *, dry_run: bool) -> tuple[str, str]:
    if dry_run:
        return "", ""
    try:
        return shown_path(storage.recover(journal)), ""
    except CassetteError as error:
        return "", str(error)
