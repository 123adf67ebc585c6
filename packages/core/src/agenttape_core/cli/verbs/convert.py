"""`agenttape convert`: the same cassette in another layout or packing."""

from __future__ import annotations

import click

from agenttape_core import storage
from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import print_json, print_text, verb
from agenttape_core.errors import shown_path


@verb("agenttape convert cassettes/weather.yaml cassettes/weather.jsonl.gz")
@click.argument("source", type=click.Path(readable=False))
@click.argument("target", type=click.Path(readable=False))
@click.option("--overwrite", is_flag=True, help="Replace an existing cassette.")
def convert(source: str, target: str, *, overwrite: bool, as_json: bool) -> None:
    """Convert a cassette to the layout and packing of TARGET's suffix, without loss. SOURCE is kept."""
    found = found_one(source)
    written = shown_path(storage.convert(found.open(), target, overwrite=overwrite))
    if as_json:
        print_json({"source": found.shown, "written": written})
    else:
        print_text(f"{found.shown} converted to {written}")
