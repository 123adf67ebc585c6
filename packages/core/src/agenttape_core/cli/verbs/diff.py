"""`agenttape diff`: two cassettes, record by record."""

from __future__ import annotations

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_one
from agenttape_core.cli.output import print_json, print_text, verb
from agenttape_core.matching import Ignored
from agenttape_core.tools.compare import Comparison


@verb("agenttape diff --exit-code cassettes/old.yaml cassettes/new.yaml")
@click.argument("first", type=click.Path())
@click.argument("other", type=click.Path())
@click.option(
    "--ignore", multiple=True, metavar="PATH", help="A path in requests to ignore, as in use_cassette. Repeatable."
)
@click.option("--steps/--no-steps", default=True, help="Compare steps, too; by default they are.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if they differ.")
def diff(first: str, other: str, *, ignore: tuple[str, ...], steps: bool, exit_code: bool, as_json: bool) -> int:
    """Compare two cassettes: print the first divergence, then each record that differs, word by word.

    Records are aligned by their addresses in the run. Ids that correspond to each other are no difference.
    """
    if first == other == STDIN:
        raise click.UsageError("only one of two cassettes can come from standard input")
    comparison = Comparison(found_one(first).open(), found_one(other).open(), Ignored.of(ignore), steps=steps)
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_text(str(comparison))
    return FINDINGS if exit_code and comparison else OK
