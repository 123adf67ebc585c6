"""`agenttape fleet`: thousands of recordings, on one machine or many."""

from __future__ import annotations

import click

from agenttape_core.cli.app import Commands
from agenttape_core.cli.fleet import FLEET


@click.group(
    cls=Commands,
    groups={"Commands": FLEET},
    package="agenttape_core.cli.fleet",
    epilog="Example: agenttape fleet plan runs --experiment check --checks rules.yaml > items.jsonl",
)
def fleet() -> None:
    """Check or replay thousands of recordings, on one machine or many.

    A plan lists the work, any number of workers do it, and their outcomes are one object each in a folder or a store.
    """
