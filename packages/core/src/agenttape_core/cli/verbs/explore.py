"""`agenttape explore`: answer overlapping calls in other orders, and find the smallest that changes the outcome."""

from __future__ import annotations

import os
import sys

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_one
from agenttape_core.cli.hash_seed import pin_hash_seed
from agenttape_core.cli.output import print_json, print_text, progress_bar, verb
from agenttape_core.tools.explore import ORDERS, SEED
from agenttape_core.tools.explore import explore as run_explore


@verb("agenttape explore tests/agent.py:run cassettes/weather.yaml")
@click.argument("function")
@click.argument("cassette", type=click.Path(readable=False))
@click.option("--orders", default=ORDERS, show_default=True, help="The most orders to try.")
@click.option("--seed", default=SEED, show_default=True, help="The seed of orders that are chosen by chance.")
@click.option("--order", help="Only this order, as a finding names it: numbers of calls, such as 5,3.")
def explore(function: str, cassette: str, *, orders: int, seed: int, order: str | None, as_json: bool) -> int:
    """Replay FUNCTION with the calls of CASSETTE answered in other orders, and say which change the outcome.

    FUNCTION is module:function or path/to/file.py:function, without arguments; CASSETTE is opened around it. Calls that
    wait side by side in an event loop or in threads are answered in every order, or in those nearest to the recorded
    one and others by chance. Exits with 1 if an order changes the outcome, with 3 if CASSETTE cannot be read.
    """
    if cassette == STDIN:
        raise click.UsageError("a cassette that is replayed many times cannot be read from standard input")
    path = found_one(cassette).shown
    pin_hash_seed(path)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - an entry of the path is a text; modules are found from here
    with progress_bar(orders if order is None else None, "replaying") as advance:
        found = run_explore(function, path, orders=orders, seed=seed, order=order, on_replay=advance)
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(str(found))
    return OK if found.ok else FINDINGS
