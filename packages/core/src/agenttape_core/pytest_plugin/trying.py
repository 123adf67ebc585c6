"""`--cassette-lab=model`: a test that has passed with its recording is run again with another model, several times."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agenttape_core.engine import Mode
from agenttape_core.errors import BudgetExceededError, ConfigurationError
from agenttape_core.experiments.strategies.trials import (
    Sample,
    Trial,
    judged,
    lines_of,
    markdown_of,
    plain_of,
    read_trials,
    sample_of,
    trial_of,
    unrecorded_inside,
)
from agenttape_core.experiments.strategies.trials.judging import Lane
from agenttape_core.experiments.strategies.trials.sampling import (
    Case,
    TrialPlan,
    planned,
    refuse_unpriced,
    take_samples,
)
from agenttape_core.experiments.verdicts import verdict_of
from agenttape_core.lifecycle.candidates import candidates_of
from agenttape_core.pytest_plugin.costs import prices_of
from agenttape_core.pytest_plugin.failures import ours_in
from agenttape_core.pytest_plugin.naming import safe
from agenttape_core.pytest_plugin.rerun import Excinfo, run_again
from agenttape_core.schema import MODEL_KINDS, OWN
from agenttape_core.session import Session
from agenttape_core.settings import models_by_place
from agenttape_core.storage import location_of, open_cassette
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.report.trajectory import Trajectory, trajectory_of
from agenttape_core.tools.upkeep.verified import own_folder

_TRIAL = "agenttape.trial"
"""The name of the property of a test report that holds a trial, as JSON."""
_PLANS = "agenttape.trial_plans"
"""The name of that which holds what its trials would take."""
FOLDER = Path(".agenttape") / "candidates"
"""The folder of the derived cassettes, below the root of the tests."""


class Tried(NamedTuple):
    """A run of a test with another model.

    Args:
        candidate: The name of the model, or names by place, or the word for the test's own.
        target: The derived cassette.
    """

    candidate: str | Mapping[str, str]
    target: Path


class _OverBudgetError(Exception):
    """A sample ended early because the money ran out; the message has the details."""


_INTERRUPTED: pytest.StashKey[list[Trial]] = pytest.StashKey()
"""The interrupted trials of a run, with their samples."""
_RESUMED: pytest.StashKey[list[Trial]] = pytest.StashKey()
"""The trials of an earlier run that this one continues."""
_FAMILY: pytest.StashKey[int] = pytest.StashKey()
"""The most trials of a run."""
TRIED: pytest.StashKey[Tried] = pytest.StashKey()
"""The other model for a test, and its target file."""


def options_of(item: pytest.Item) -> dict[str, Any]:
    """Return the options of the cassette of a test that is run with another model; none for any other run."""
    tried = item.stash.get(TRIED, None)
    if tried is None:
        return {}
    live = item.config.option.candidate_options.get("live")
    more = {"live": live.split(",")} if live else {}
    return {"candidate": tried.candidate, "to": tried.target, "on_error": "keep", "mode": "replay", **more}


def try_candidates(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Run a passed test with each candidate, and with its own model, and keep the results in its report.

    With `--cassette-dry-run`, only the plan is kept. The samples that were taken are kept even if the run is
    interrupted, or reaches the limit of its cost. A test that calls no model is left alone.

    Args:
        item: The test. Its own fixtures have been torn down.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
    """
    first, problem = item.stash[key], ""
    try:
        trying = _trying(item, first.session)
        for candidate in trying.candidates if trying is not None else ():
            if trying is None or item.config.option.cassette_dry_run:
                continue
            _try_one(item, nextitem, key, trying, candidate)
    except ConfigurationError as error:
        problem = str(error)
    finally:
        item.stash[key] = first
    if problem:
        pytest.fail(problem, pytrace=False)
    fail_worse(item)


class _Trying(NamedTuple):
    """The candidates for a test, which can be tried.

    Args:
        candidates: Their names, as the command line gives them.
        recorded: The path of the recording.
        prices: The prices of tokens.
        baseline: The samples with the test's own model, which all candidates share.
        known: The samples of an earlier run, by candidate, lane and number.
    """

    candidates: Sequence[str]
    recorded: Trajectory
    prices: Prices
    baseline: dict[int, Sample]
    known: Mapping[tuple[str, Lane, int], Sample]


def _trying(item: pytest.Item, session: Session) -> _Trying | None:
    """Check the candidates for a test before any is called; `None` if the test calls no model.

    Raises:
        ConfigurationError: If one cannot be tried, or the limit of the cost cannot be kept.
    """
    option, prices = item.config.option, prices_of(item.config)
    path = location_of(session.path)
    cassette = open_cassette(path)
    if not any(row.kind in MODEL_KINDS for row in cassette.entries):
        return None
    plans: list[TrialPlan] = []
    for name in option.cassette_candidate:
        chosen = candidates_of(models_by_place(name), path, cassette, Mode.REPLAY)
        if not option.cassette_dry_run and option.cassette_max_usd is None:
            continue
        counts = {"samples": option.cassette_samples[0], "baseline": 0 if plans else _baseline(item)}
        plans.append(planned(item.nodeid, cassette, (name, chosen), **counts, prices=prices))
        if option.cassette_max_usd is not None:
            refuse_unpriced(plans[-1], option.cassette_max_usd)
    if option.cassette_dry_run:
        item.user_properties.append((_PLANS, json.dumps([asdict(plan) for plan in plans])))
    recorded = trajectory_of(cassette, prices)
    return _Trying(option.cassette_candidate, recorded, prices, {}, _known(item, recorded))


def _baseline(item: pytest.Item) -> int:
    return int(item.config.option.cassette_samples[1])


def _known(item: pytest.Item, recorded: Trajectory) -> dict[tuple[str, Lane, int], Sample]:
    """Return the samples of an earlier run, unless the test was recorded again since."""
    path = item.config.option.cassette_resume
    if path is None:
        return {}
    if _RESUMED not in item.config.stash:
        item.config.stash[_RESUMED] = read_trials(path)
    same = [one for one in item.config.stash[_RESUMED] if (one.name, one.recorded) == (item.nodeid, recorded)]
    found = {(one.candidate, sample.lane, sample.number): sample for one in same for sample in one.samples}
    shared = {(OWN, sample.lane, sample.number): sample for sample in found.values() if sample.lane == "baseline"}
    return found | shared


def _try_one(
    item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any], trying: _Trying, candidate: str
) -> None:
    """Take samples of one candidate in turn with the baseline's, until there is a verdict, and keep them."""
    over = ""

    def take(lane: Lane, model: str, number: int) -> Sample:
        known = (trying.baseline.get(number) if lane == "baseline" else None) or trying.known.get((model, lane, number))
        found = known or _sample(item, nextitem, key, (lane, model, number), trying.recorded, trying.prices)
        if lane == "baseline":
            trying.baseline[number] = found
        return found

    case = Case(item.nodeid, candidate, trying.recorded, take)
    try:
        most, baseline = item.config.option.cassette_samples
        take_samples([case], samples=most, baseline=baseline, family=family_of(item))
    except _OverBudgetError as error:
        over = str(error)
    except BaseException:
        item.config.stash.setdefault(_INTERRUPTED, []).append(case.trial)
        raise
    _keep(item, case.trial)
    if over:
        pytest.fail(f"{candidate} was not tried to the end: {over}", pytrace=False)


def _sample(  # noqa: PLR0917 - private, and called twice
    item: pytest.Item,
    nextitem: pytest.Item | None,
    key: pytest.StashKey[Any],
    which: tuple[Lane, str, int],
    recorded: Trajectory,
    prices: Prices,
) -> Sample:
    lane, candidate, number = which
    folder = item.config.option.candidate_options.get("to", item.config.rootpath / FOLDER)
    target = Path(folder).absolute() / safe(candidate) / f"{safe(item.nodeid)}.{number}.yaml"
    if "to" not in item.config.option.candidate_options:
        own_folder(item.config.rootpath)
    target.unlink(missing_ok=True)
    item.stash[TRIED] = Tried(models_by_place(candidate) or candidate, target)
    if key in item.stash:
        del item.stash[key]  # if the setup fails, there is no other
    try:
        raised = run_again(item, nextitem)
    finally:
        del item.stash[TRIED]
    problem = _problem(raised)
    again = item.stash.get(key, None)
    if again is not None and isinstance(again.session.failure, BudgetExceededError):
        raise _OverBudgetError(str(again.session.failure).partition("\n")[0])
    unrecorded = [one.to_dict() for one in again.session.report.unrecorded] if again is not None else []
    unrecorded += [unrecorded_inside(line) for line in again.failed_inside] if again is not None else []
    there = target if target.is_file() else None
    run_id = again.session.report.run_id if again is not None else ""
    return sample_of(
        lane,
        number,
        there,
        recorded,
        prices,
        passed=raised is None,
        unrecorded=unrecorded,
        problem=problem,
        run_id=run_id,
    )


def _problem(raised: Excinfo | None) -> str:
    """Return the first line of what ended a run.

    Raises:
        pytest.fail.Exception: If the candidate cannot be tried at all.
    """
    if raised is None:
        return ""
    error = ours_in(raised.value)
    if isinstance(error, ConfigurationError) or "candidate=" in raised.exconly():
        pytest.fail(str(error) if error is not None else raised.exconly(), pytrace=False)
    return raised.exconly().partition("\n")[0]


def _keep(item: pytest.Item, trial: Trial) -> None:
    item.user_properties.append((_TRIAL, json.dumps(asdict(trial))))
    prefix = f"cassette.candidate.{trial.candidate}"
    item.user_properties += [
        (f"{prefix}.verdict", verdict_of(trial.pairs, family=family_of(item))),
        (f"{prefix}.passed", f"{trial.passed('candidate')} of {len(trial.counting('candidate'))}"),
        (f"{prefix}.not_counted", str(sum(trial.left_out.values()))),
    ]


def family_of(item: pytest.Item) -> int:
    """Return how many trials the run makes at most: their verdicts are corrected for that."""
    session = item.session
    if _FAMILY not in session.stash:
        with_cassette = (one for one in session.items if one.get_closest_marker("cassette") is not None)
        session.stash[_FAMILY] = sum(1 for _ in with_cassette) * len(item.config.option.cassette_candidate)
    return max(session.stash[_FAMILY], 1)


def fail_worse(item: pytest.Item) -> None:
    """Fail a test with which a candidate is worse, passes too seldom, or could not be judged."""
    for trial in trials_in(item.user_properties):
        if failure := trial.failure(family_of(item), item.config.option.cassette_fail_under):
            problems = dict.fromkeys(one.problem for one in trial.lane("candidate") if one.problem)
            pytest.fail("\n  ".join([failure, *problems]), pytrace=False)


def is_worse(trials: Sequence[Trial]) -> bool:
    """Return whether a trial is worse when all of the run are judged together: then one alone needs less evidence."""
    return any(one.verdict == "WORSE" for one in judged(trials))


def trials_in(properties: Sequence[tuple[str, object]]) -> list[Trial]:
    """Return the trials that the properties of a report hold, in whatever process they were made."""
    return [trial_of(json.loads(str(value))) for name, value in properties if name == _TRIAL]


def interrupted_in(config: pytest.Config) -> list[Trial]:
    """Return the trials of this process that were interrupted, with the samples that they had."""
    return config.stash.get(_INTERRUPTED, [])


def plans_in(properties: Sequence[tuple[str, object]]) -> list[TrialPlan]:
    """Return the plans that the properties of a report hold."""
    found = [one for name, value in properties if name == _PLANS for one in json.loads(str(value))]
    return [TrialPlan(**{**one, "unpriced": tuple(one["unpriced"])}) for one in found]


def sections_of(trials: Sequence[Trial]) -> list[tuple[str, list[str]]]:
    """Return the sections of the summary: a table for each candidate."""
    names, all_of_them = dict.fromkeys(trial.candidate for trial in trials), judged(trials)
    return [
        (f"candidate {name}", lines_of([one for one in all_of_them if one.trial.candidate == name])) for name in names
    ]


def write_trials(path: str, trials: Sequence[Trial]) -> None:
    """Write the trials to a file: as Markdown if it ends with `.md`, else as JSON."""
    target = Path(path)
    os.makedirs(target.parent, exist_ok=True)  # noqa: PTH103 - of the user's own
    text = markdown_of(trials) if target.suffix == ".md" else json.dumps(plain_of(trials), indent=2)
    target.write_text(text, encoding="utf-8")


def write_plans(path: str, plans: Sequence[TrialPlan]) -> None:
    """Write the plan of the trials to a file, as JSON."""
    total = {"calls": sum(plan.baseline + plan.calls for plan in plans), "dollars": sum(one.dollars for one in plans)}
    plain = {"plans": [plan.to_dict() for plan in plans], **total, "all_priced": not any(p.unpriced for p in plans)}
    Path(path).write_text(json.dumps(plain, indent=2), encoding="utf-8")
