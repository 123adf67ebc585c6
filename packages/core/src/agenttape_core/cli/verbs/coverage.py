"""`agenttape coverage`: the parts of a program that recorded runs never exercised."""

from __future__ import annotations

import click

from agenttape_core.checks.loading import loaded
from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import found_in, paths_argument
from agenttape_core.cli.output import print_json, print_table, print_text, printable, progress, verb
from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.reading.coverage import Coverage

_SAID = {
    "tools": "tools offered and never called",
    "errors": "tools that never failed",
    "nodes": "nodes that never ran",
    "edges": "edges never taken",
    "events": "events that never came",
}


@verb("agenttape coverage tests --graph app:graph --fail-under 80")
@paths_argument
@click.option("--graph", metavar="NAME", help="A graph or a workflow to hold them against, module:graph.")
@click.option("--fail-under", type=click.FloatRange(0, 100), help="Exit with 1 if less is covered, in percent.")
def coverage(paths: tuple[str, ...], *, graph: str | None, fail_under: float | None, as_json: bool) -> int:
    """Show which tools, nodes and edges recorded runs have used.

    Also counts errors of tools and interrupts.

    The percentage counts the tools that models were offered, and with --graph its nodes, edges and events.
    """
    found = Coverage()
    if graph is not None:
        target = loaded(graph, "--graph")
        try:
            found.hold_against(target)
        except ConfigurationError as error:
            raise ConfigurationError(f"--graph: {graph} isn't a graph: {error}") from None
    has_calls = False
    for each in progress(found_in(paths), "reading"):
        cassette = each.look()
        found.add(cassette)
        has_calls = has_calls or bool(cassette.entries)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    if not has_calls:
        click.echo(f"nothing is covered: no cassette in {printable(', '.join(paths) or '.')} holds a call", err=True)
        return FINDINGS
    return FINDINGS if fail_under is not None and found.percent < fail_under else OK


def _print(found: Coverage) -> None:
    facts = found.to_dict()
    rows = [(f"tool {each['name']}", f"{each['called']:,}") for each in facts["tools"]]
    rows += [(f"node {each['name']}", f"{each['count']:,}") for each in facts["nodes"]]
    rows += [(f"edge {each['from']} → {each['to']}", f"{each['count']:,}") for each in facts["edges"]]
    rows += [
        (f"event {each['name']}", f"{each['count']:,}" if each["count"] is not None else "unknown")
        for each in facts.get("events", ())
    ]
    rows += [(f"interrupt {each['name']}", f"{each['count']:,}") for each in facts["interrupts"]]
    print_table(("what", "times"), rows, right=frozenset({"times"}))
    for sort, names in found.never.items():
        if names:
            print_text(f"{_SAID[sort]}: {', '.join(names)}")
    if found.unknown:
        print_text(f"events of which the recordings do not tell: {', '.join(found.unknown)}")
    print_text(f"{found.percent:g} % covered")
