"""`--rerecord=plan` and `--cassette-max-usd`: what it would take to heal the cassettes of tests, and a limit on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.session import Session
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.heal.plans import Plan, plan_of, total_of
from agenttape_core.tools.reading.prices import load_prices

_PLAN = "agenttape.plan"
"""The name of the property of a test report that holds its plan, as JSON."""


def keep_to(dollars: float, config: pytest.Config) -> None:
    """Hold the sessions of a run to a limit in US dollars; with pytest-xdist, those of each worker to its share.

    Args:
        dollars: The limit.
        config: The configuration of the run.

    Raises:
        pytest.UsageError: If there are no prices, or it is no amount.
    """
    try:
        held = Budget(dollars / _workers(config), load_prices(project_settings().prices)).held()
    except ConfigurationError as error:
        raise pytest.UsageError(f"--cassette-max-usd: {error}") from None
    around = ExitStack()
    around.enter_context(held)
    config.add_cleanup(around.close)


def _workers(config: pytest.Config) -> int:
    """Return the number of processes that share the limit of a run: the workers of pytest-xdist, if it is one's run."""
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    return workers


def keep_plan(item: pytest.Item, test: str, session: Session) -> None:
    """Keep in the report of a test what it would take to heal its cassette.

    Args:
        item: The test.
        test: Its id, as pytest is given it in the folder in which it was started.
        session: Its session, which has ended.
    """
    plan = plan_of(session, load_prices(project_settings().prices))
    kept = [(name, value) for name, value in item.user_properties if name != _PLAN]
    item.user_properties[:] = [*kept, (_PLAN, json.dumps({"test": test, "plan": plan.to_dict()}))]


def passed_over(report: pytest.TestReport) -> None:
    """Let a test be skipped that has failed while it was planned: it was given old answers to new questions."""
    report.outcome = "skipped"
    report.longrepr = (str(report.location[0]), report.location[1] or 0, "planned: its cassette would be healed")


def plan_in(report: pytest.TestReport) -> tuple[str, Plan] | None:
    """Return the id of a test and its plan, as its report holds them, in whatever process they were made."""
    found = next((str(value) for name, value in report.user_properties if name == _PLAN), None)
    if found is None:
        return None
    plain = json.loads(found)
    return plain["test"], Plan.from_dict(plain["plan"])


def lines_of(plans: Mapping[str, Plan], again: Callable[[str], str]) -> list[str]:
    """Return the lines about the plans of tests that are to be healed.

    Args:
        plans: The plans by the ids of the tests.
        again: Returns the command that runs the same tests with one more option.
    """
    dirty = [plan for plan in plans.values() if not plan.is_clean]
    lines = [line for plan in dirty for line in plan.lines()]
    healed = f"dirty, and {again('--rerecord=dirty')} executes only what has changed" if dirty else "dirty"
    return [*lines, f"{len(dirty)} of {counted(len(plans), 'cassette')} {healed}: {total_of(list(plans.values()))}"]


def write_plans(path: str, plans: Mapping[str, Plan]) -> None:
    """Write the plans of tests to a file, as JSON: `{"tests": {ID: PLAN}}`."""
    written: dict[str, Any] = {"tests": {test: plan.to_dict() for test, plan in plans.items()}}
    Path(path).write_text(json.dumps(written, indent=2), encoding="utf-8")


def read_plans(path: str | Path) -> dict[str, Plan]:
    """Read the file that `write_plans` wrote."""
    tests = json.loads(Path(path).read_text(encoding="utf-8"))["tests"]
    return {test: Plan.from_dict(plan) for test, plan in tests.items()}
