"""`agenttape lab orders`: answer overlapping calls in other orders, and find the smallest that changes the outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.labs import experiment, with_runs, with_seed
from agenttape_core.experiments.engine import SEED
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.order_search import Exploration
from agenttape_core.experiments.strategies.orders import ORDERS
from agenttape_core.experiments.strategies.orders import orders as run_orders


@experiment(
    "agenttape lab orders tests/agent.py:run --cassette cassettes/weather.yaml",
    with_runs(ORDERS, "Try N orders at most."),
    with_seed(SEED),
    click.option("--order", help="Try only this order, as a finding names it: numbers of calls, such as 5,3."),
)
def orders(program: Program, path: Path | None, **given: Any) -> Exploration:
    """Answer recorded calls in other orders, and show which of them change the outcome.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Calls that
    wait side by side in an event loop or in threads are answered in every order, or in those nearest to the recorded
    one and others by chance. Exits with 1 if an order changes the outcome.
    """
    return run_orders(program, path, **given)
