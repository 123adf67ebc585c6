"""`agenttape lab`: run a recorded program again and again, with something varied."""

from __future__ import annotations

import click

from agenttape_core.cli.app import Commands
from agenttape_core.cli.labs import EXPERIMENTS


@click.group(
    cls=Commands,
    groups={"Experiments": EXPERIMENTS},
    package="agenttape_core.cli.labs",
    epilog="Example: agenttape lab faults tests/test_support.py",
    subcommand_metavar="NAME TARGET...",
)
def lab() -> None:
    """Vary something in each replay: faults, orders, mutants and more.

    TARGET is the id of a test, a file of tests, a function: module:function or path/to/file.py:function, with
    --cassette NAME; or, except for mutants, a command after the options and --, as in -- python agent.py. Everything
    that is recorded is replayed, so most experiments call no model and no tool.
    """
