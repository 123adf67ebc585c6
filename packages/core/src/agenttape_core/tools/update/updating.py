"""`plan` and `update`: for a function and its cassette."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeHalt, ConfigurationError
from agenttape_core.lifecycle.contained import ContainedBlock
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.tools.reading.prices import how_to_price, load_prices
from agenttape_core.tools.target import run_to_end
from agenttape_core.tools.update.plans import PLANNING, Plan, plan_of


def plan(function: Callable[[], Any], cassette: str | Path, **options: Any) -> Plan:
    """Return what it would take to update a cassette. Nothing is executed, and nothing is written.

    The function is replayed. Where a call asks for something else than was recorded, it gets the old answer of its
    place, so that changes further on are found, too. What the function raises then means nothing.

    Args:
        function: The run, without arguments; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it.
        options: More options of `use_cassette`.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
    """
    request = use_cassette(cassette, **{**options, **PLANNING, "on_miss": "raise"}).request
    block = ContainedBlock(request._replace(judges_unused=False))
    session = block.__enter__()
    # What the program makes of old answers to new questions is not what is asked here, and misses are in the report.
    with suppress(Exception, AgentTapeHalt), ExitStack() as around:
        around.push(block)
        run_to_end(function)
    return replace(
        plan_of(session, load_prices(project_settings().prices)), failed=tuple(one.line for one in block.failed)
    )


def update(function: Callable[[], Any], cassette: str | Path, *, max_usd: float | None = None, **options: Any) -> Plan:
    """Execute those calls of a run that have changed, and what depends on them; serve the rest, drop what is left over.

    Args:
        function: The run, without arguments; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it.
        max_usd: The most that it may cost, in US dollars, by what the recordings cost. If it may cost more, nothing is
            executed.
        options: More options of `use_cassette`.

    Returns:
        The plan that was carried out.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
        ConfigurationError: If it may cost more than `max_usd`, or nobody knows what.
    """
    found = plan(function, cassette, **options)
    refuse_dear(found, max_usd)
    if not found.is_clean:
        with use_cassette(cassette, **{**options, "mode": "update"}):
            run_to_end(function)
    return found


def refuse_dear(found: Plan, max_usd: float | None) -> None:
    """Refuse a plan that may cost more than is allowed.

    Args:
        found: The plan.
        max_usd: The most that it may cost, in US dollars; `None` if it may cost anything.

    Raises:
        ConfigurationError: If it may cost more, or the cost of a call is not known.
    """
    if max_usd is None or found.is_clean:
        return
    if found.dollars > max_usd:
        raise ConfigurationError(
            f"the update may cost about ${found.dollars:.4f}, and ${max_usd:g} is allowed; nothing was executed\n"
            f"  {found}"
        )
    calls = [call for call in (*found.changed, *found.below) if call.dollars is None]
    if calls:
        models = [call.model for call in calls if call.model is not None]
        advice = how_to_price(models, load_prices(project_settings().prices))
        raise ConfigurationError(
            f"the cost of {len(calls)} of the calls is not known, so ${max_usd:g} cannot be kept; nothing was executed"
            f"\n  {calls[0]}\n  {advice}"
        )
