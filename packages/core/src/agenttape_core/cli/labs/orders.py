"""`agenttape lab orders`: answer overlapping calls in other orders, and find the smallest that changes the outcome."""

from __future__ import annotations

import os
import sys

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.hash_seed import pin_hash_seed
from agenttape_core.cli.labs import recording_of, show, with_cassette, with_report, with_runs, with_seed, write_reports
from agenttape_core.cli.output import progress_bar, verb
from agenttape_core.experiments.strategies.orders import ORDERS, SEED
from agenttape_core.experiments.strategies.orders import orders as run_orders


@verb("agenttape lab orders tests/agent.py:run --cassette cassettes/weather.yaml")
@click.argument("target")
@with_cassette
@with_runs(ORDERS, "Try N orders at most.")
@with_seed(SEED)
@click.option("--order", help="Try only this order, as a finding names it: numbers of calls, such as 5,3.")
@with_report
def orders(
    target: str,
    *,
    cassette: str | None,
    runs: int,
    seed: int,
    order: str | None,
    reports: tuple[str, ...],
    as_json: bool,
) -> int:
    """Answer recorded calls in other orders, and show which of them change the outcome.

    TARGET is module:function or path/to/file.py:function, without arguments; the cassette is opened around it. For
    tests: pytest --cassette-lab=orders. Calls that wait side by side in an event loop or in threads are answered in
    every order, or in those nearest to the recorded one and others by chance. Exits with 1 if an order changes the
    outcome.
    """
    path = recording_of(cassette)
    if "::" in target or path is None:
        raise click.UsageError(
            f"name a function and its recording: --cassette; for tests: pytest --cassette-lab=orders {target}"
        )
    pin_hash_seed(path)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - an entry of the path is a text; modules are found from here
    with progress_bar(runs if order is None else None, "replaying") as advance:
        found = run_orders(target, path, runs=runs, seed=seed, order=order, on_replay=advance)
    show(found, as_json=as_json)
    write_reports(reports, found.to_dict(), str(found))
    return OK if found.ok else FINDINGS
