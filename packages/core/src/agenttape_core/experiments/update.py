"""Update the cassette of a function after an edit: the plan shows what that would cost, and no more is executed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from agenttape_core.experiments.program import FunctionProgram
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.target import run_to_end
from agenttape_core.tools.update import PLANNING, Plan, plan_of, refuse_dear

__all__ = ["plan", "update"]


def plan(function: Callable[[], Any], cassette: str | Path, **options: Any) -> Plan:
    """Return the plan of an update of a cassette. No call is executed, and no file is written.

    The function is replayed. Where a call asks for something else than was recorded, it gets the old answer of its
    place, so that later changes are found. An exception of the function isn't an error then.

    Args:
        function: The run, without arguments; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it.
        options: More options of `use_cassette`.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
    """
    settings, program = project_settings(), FunctionProgram(function, options=options)
    unused = options.get("on_unused", settings.on_unused)  # it decides whether unused recordings are dropped
    run = program.run(Variation(cassette, {**PLANNING, "on_miss": "raise", "on_unused": unused}))
    return replace(plan_of(run.own_session, load_prices(settings.prices)), failed=run.failed)


def update(function: Callable[[], Any], cassette: str | Path, *, max_usd: float | None = None, **options: Any) -> Plan:
    """Execute the changed calls of a run and their dependents; replay the rest, and drop unused recordings.

    Args:
        function: The run, without arguments; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it.
        max_usd: The most that calls of models may cost, in US dollars. If the recordings cost more, none is executed.
            A new call is not made if it may cost more than is left.
        options: More options of `use_cassette`.

    Returns:
        The plan that was carried out.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
        BudgetExceededError: If a new call would cost more than is left.
        ConfigurationError: If it may cost more than `max_usd`, or the cost isn't known.
    """
    found = plan(function, cassette, **options)
    refuse_dear(found, max_usd)
    if not found.is_clean:
        limit = Budget(max_usd, load_prices(project_settings().prices)).held() if max_usd is not None else nullcontext()
        with limit, use_cassette(cassette, **{**options, "mode": "update"}):
            run_to_end(function)
    return found
