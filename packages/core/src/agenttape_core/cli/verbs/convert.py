"""`agenttape convert`: the same cassette in another layout or packing."""

from __future__ import annotations

import click

from agenttape_core import storage
from agenttape_core.cli.output import print_json, print_text, verb


@verb("agenttape convert cassettes/weather.yaml cassettes/weather.jsonl.gz")
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
@click.option("--overwrite", is_flag=True, help="Replace a cassette that is there already.")
def convert(source: str, target: str, *, overwrite: bool, as_json: bool) -> None:
    """Write a cassette once more, as the suffix of TARGET says, without loss. SOURCE is left as it is."""
    written = storage.convert(source, target, overwrite=overwrite)
    if as_json:
        print_json({"source": source, "written": str(written)})
    else:
        print_text(f"{source} is written to {written}")
