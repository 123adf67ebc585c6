"""`agenttape diff`: two cassettes, record by record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_in, found_one
from agenttape_core.cli.output import print_json, print_text, progress, verb
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.matching import Ignored
from agenttape_core.tools.compare import Comparison
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.report import Change, Totals, change_of, markdown


@verb("agenttape diff --exit-code cassettes/old.yaml cassettes/new.yaml")
@click.argument("first", type=click.Path(readable=False))
@click.argument("other", type=click.Path(readable=False))
@click.option(
    "--ignore", multiple=True, metavar="PATH", help="A path in requests to ignore, as in use_cassette. Repeatable."
)
@click.option("--steps/--no-steps", default=True, help="Compare steps, too; by default they are.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, of two folders.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if they differ.")
def diff(
    first: str,
    other: str,
    *,
    ignore: tuple[str, ...],
    steps: bool,
    as_markdown: bool,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Compare two cassettes or two folders, word by word.

    Prints the first divergence, then each record that differs.

    Records are aligned by their addresses in the run. Ids that correspond to each other are no difference.
    Of two folders, cassettes of one name are compared, a line each: same, words, path, new, gone.
    """
    if first == other == STDIN:
        raise click.UsageError("only one of two cassettes can come from standard input")
    if Path(first).is_dir() and Path(other).is_dir():
        if ignore:
            raise click.UsageError("--ignore is for two cassettes")
        changes = _changes(Path(first), Path(other))
        _print_changes(changes, first, as_markdown=as_markdown, as_json=as_json)
        return FINDINGS if exit_code and any(change.state != "same" for change in changes) else OK
    if as_markdown:
        raise click.UsageError("--markdown is for two folders")
    comparison = Comparison(found_one(first).look(), found_one(other).look(), Ignored.of(ignore), steps=steps)
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_text(str(comparison))
    return FINDINGS if exit_code and comparison else OK


def _changes(first: Path, other: Path) -> list[Change]:
    """Return the changes of the cassettes of two folders, paired by their paths inside of them."""
    before, now = (
        {Path(found.shown).relative_to(folder).as_posix(): found for found in found_in([str(folder)])}
        for folder in (first, other)
    )
    prices = load_prices(project_settings().prices)
    found = []
    for name in progress(sorted(before.keys() | now.keys()), "comparing"):
        old, new = (pair[name].look if name in pair else None for pair in (before, now))
        found.append(change_of(name, old, new, prices))
    return [change for change in found if change is not None]


def _print_changes(changes: Sequence[Change], base: str, *, as_markdown: bool, as_json: bool) -> None:
    totals = Totals.of(changes)
    if as_json:
        rows = [change.to_dict() for change in changes]
        print_json({"changed": totals.changed, "paths": totals.paths, "recordings": rows})
    elif as_markdown:
        print_text(markdown(changes, base).rstrip("\n"))
    else:
        for change in changes:
            first = change.calls[0] if change.calls else change.problem
            print_text(f"{change.state:<11}{change.path}{f'  {first}' if first else ''}")
        before, now = totals.tokens
        print_text(f"{totals.changed} of {totals.recordings} changed, {before:,} → {now:,} tokens")
