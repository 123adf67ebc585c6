"""`--cassette-dry-run` and `--cassette-max-usd`: the cost of an update of tests, and a limit on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.session import Session
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.update import PLANNING, Plan, plan_of, planned_together, summary_of

_PLAN = "agenttape.plan"  # the name of the property of a test report that holds its plan, as JSON
_OWN = "agenttape.own_plans"
"""The name of the property that holds the plans of the sessions that a test has opened itself, as JSON."""
_REFUSED = "agenttape.refused"
"""The name of the property of a test without a plan: why its cassette could not be opened, as JSON."""
_SHOWN = 3
OPTIONS = {**PLANNING, "on_miss": "raise"}  # options of replays in a plan


class OwnPlan(NamedTuple):
    """The plan of a cassette that tests open themselves."""

    plan: Plan
    tests: tuple[str, ...]  # the ids of these tests


def keep_to(dollars: float, config: pytest.Config) -> None:
    """Hold the sessions of a run to a limit in US dollars; with pytest-xdist, each worker's sessions to its share.

    Raises `pytest.UsageError` if there are no prices, or it isn't an amount.
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
    """Keep the plan to update a test's cassette in its report.

    `test` is its id, as pytest is given it in the folder in which it was started; its session has ended.
    """
    plan = plan_of(session, load_prices(project_settings().prices))
    kept = [(name, value) for name, value in item.user_properties if name != _PLAN]
    item.user_properties[:] = [*kept, (_PLAN, json.dumps({"test": test, "plan": plan.to_dict()}))]


def keep_own_plans(item: pytest.Item, test: str, sessions: Sequence[Session], own: Session | None) -> None:
    """Keep the plans to update the cassettes that a test opened itself in its report.

    Its sessions have ended; `own`, the session of its marker, is left to `keep_plan`.
    """
    prices = load_prices(project_settings().prices)
    replays = [session for session in sessions if session is not own and not session.policy.records]
    plans = [plan_of(session, prices).to_dict() for session in replays]
    kept = [(name, value) for name, value in item.user_properties if name != _OWN]
    item.user_properties[:] = [*kept, (_OWN, json.dumps({"test": test, "plans": plans}))] if plans else kept


def keep_refusal(item: pytest.Item, test: str, problem: str) -> None:
    """Keep in the report of a test why there's no plan for it: a cassette that it needs couldn't be opened."""
    item.user_properties.append((_REFUSED, json.dumps({"test": test, "problem": problem})))


def refusals_in(report: pytest.TestReport) -> dict[str, str]:
    """Return why there's no plan for a test, by its id; empty if there is one."""
    found = [json.loads(str(value)) for name, value in report.user_properties if name == _REFUSED]
    return {one["test"]: one["problem"] for one in found}


def passed_over(report: pytest.TestReport) -> None:
    """Let a test be skipped that has failed while it was planned: it was given old answers to new questions."""
    report.outcome = "skipped"
    report.longrepr = (str(report.location[0]), report.location[1] or 0, "planned: its cassette would be updated")


def plan_in(report: pytest.TestReport) -> tuple[str, Plan] | None:
    """Return the id of a test and its plan, as its report holds them, in whatever process they were made."""
    found = next((str(value) for name, value in report.user_properties if name == _PLAN), None)
    if found is None:
        return None
    plain = json.loads(found)
    return plain["test"], Plan.from_dict(plain["plan"])


def own_plans_in(report: pytest.TestReport) -> list[OwnPlan]:
    """Return the plans for the cassettes that a test opened itself, from its report."""
    found = next((str(value) for name, value in report.user_properties if name == _OWN), None)
    if found is None:
        return []
    plain = json.loads(found)
    return [OwnPlan(Plan.from_dict(plan), (plain["test"],)) for plan in plain["plans"]]


def by_cassette(found: Iterable[OwnPlan]) -> dict[str, OwnPlan]:
    """Return plans by the paths of their cassettes, with the plans of one cassette together."""
    together: dict[str, OwnPlan] = {}
    for one in found:
        before = together.get(one.plan.path)
        if before is None:
            together[one.plan.path] = one
        else:
            tests = tuple(dict.fromkeys((*before.tests, *one.tests)))
            together[one.plan.path] = OwnPlan(planned_together(before.plan, one.plan), tests)
    return together


def lines_of(plans: Mapping[str, Plan], refused: Mapping[str, str], again: Callable[[str], str]) -> list[str]:
    """Return the lines about the plans of tests that are to be updated.

    `refused` is why there's no plan for the others; `again` returns the command that runs the same tests with one more
    option.
    """
    changed = [plan for plan in plans.values() if not plan.is_clean]
    lines = [line for plan in changed for line in plan.lines()]
    total = summary_of(list(plans.values()), again("--rerecord=changed") if changed else "")
    return [*lines, total, *([unplanned(refused)] if refused else [])]


def unplanned(refused: Mapping[str, str]) -> str:
    """Return in one line that there are tests without a plan."""
    return f"no plan for {counted(len(refused), 'test')}, whose cassettes cannot be opened"


def lines_of_refused(refused: Mapping[str, str]) -> list[str]:
    """Return the lines about tests without a plan, with what to do about the first of them."""
    problems = list(dict.fromkeys(refused.values()))
    more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    return [f"{unplanned(refused)}:", *problems[:_SHOWN], *more]


def write_plans(path: str, plans: Mapping[str, Plan], own: Mapping[str, OwnPlan], refused: Mapping[str, str]) -> None:
    """Write the plans of tests to a file, as JSON: `{"tests": {ID: PLAN}}`.

    For cassettes that tests have opened themselves, there is also `{"sessions": {CASSETTE: {"tests": [ID], "plan":
    PLAN}}}`; and for tests whose cassettes cannot be opened, `{"refused": {ID: PROBLEM}}`.
    """
    written: dict[str, Any] = {"tests": {test: plan.to_dict() for test, plan in plans.items()}}
    if own:
        written["sessions"] = {name: {"tests": one.tests, "plan": one.plan.to_dict()} for name, one in own.items()}
    if refused:
        written["refused"] = dict(refused)
    Path(path).write_text(json.dumps(written, indent=2), encoding="utf-8")


def read_plans(path: str | Path) -> dict[str, OwnPlan]:
    """Read the file that `write_plans` wrote: plans by the ids of their tests, or by the paths of their cassettes."""
    plain = json.loads(Path(path).read_text(encoding="utf-8"))
    tests = {test: OwnPlan(Plan.from_dict(plan), (test,)) for test, plan in plain["tests"].items()}
    own = {
        name: OwnPlan(Plan.from_dict(one["plan"]), tuple(one["tests"]))
        for name, one in plain.get("sessions", {}).items()
    }
    return tests | own


def read_refused(path: str | Path) -> dict[str, str]:
    """Return, from such a file, why there's no plan for some tests, by their ids."""
    found: dict[str, str] = json.loads(Path(path).read_text(encoding="utf-8")).get("refused", {})
    return found
