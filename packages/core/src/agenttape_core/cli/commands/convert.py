"""`agenttape cassette convert`: the same cassette in another layout or packing."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from agenttape_core import storage
from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import shown_path
from agenttape_core.storage import Location, stem_of
from agenttape_core.storage.asset_files import assets_of


@cli_command("agenttape cassette convert cassettes/weather.yaml cassettes/weather.jsonl.gz")
@click.argument("source", type=click.Path(readable=False))
@click.argument("target", type=click.Path(readable=False))
@click.option("--overwrite", is_flag=True, help="Replace an existing cassette.")
@click.option("--keep", is_flag=True, help="Keep SOURCE even if TARGET has its folder and name.")
def convert(source: str, target: str, *, overwrite: bool, keep: bool, as_json: bool) -> None:
    """Convert a cassette to another format or compression.

    The suffix of TARGET is the format. If TARGET has the folder and the name of SOURCE, it replaces SOURCE, so that the
    name refers to one cassette; in all other cases SOURCE is kept.
    """
    found = found_one(source)
    path = storage.convert(found.open(), target, overwrite=overwrite)
    written = shown_path(path)
    replaces = not keep and found.path is not None and _is_another_format(found.path, path)
    if replaces and found.path is not None:
        found.path.unlink()
        shutil.rmtree(assets_of(found.path), ignore_errors=True)
    if as_json:
        print_json({"source": found.shown, "written": written, "replaced": replaces})
    else:
        print_text(f"{found.shown} converted to {written}{', which takes its place' if replaces else ''}")


def _is_another_format(source: Path, target: Location) -> bool:
    """Return True for two files with which a bare name would mean two cassettes."""
    if not isinstance(target, Path):
        return False
    one, other = source.resolve(), target.resolve()
    return one != other and one.parent == other.parent and stem_of(one) == stem_of(other)
