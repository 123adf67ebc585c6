"""`--cassette-candidate`: a test that has passed with its recording is run again with another model, several times."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.pytest_plugin.again import Excinfo, run_again
from agenttape_core.pytest_plugin.costs import prices_of
from agenttape_core.pytest_plugin.failures import ours_in
from agenttape_core.pytest_plugin.naming import safe
from agenttape_core.session import OWN, Session
from agenttape_core.storage import open_cassette
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.report.trajectory import Trajectory, trajectory_of
from agenttape_core.tools.trials import Sample, Trial, lines_of, markdown_of, plain_of, sample_of
from agenttape_core.tools.trials.judging import Lane
from agenttape_core.tools.upkeep.verified import own_folder

_TRIAL = "agenttape.trial"
"""The name of the property of a test report that holds a trial, as JSON."""
FOLDER = Path(".agenttape") / "candidates"
"""The folder of the derived cassettes, below the root of the tests."""


class Tried(NamedTuple):
    """A run of a test with another model.

    Args:
        candidate: The name of the model, or the word for the test's own.
        target: The derived cassette.
    """

    candidate: str
    target: Path


TRIED: pytest.StashKey[Tried] = pytest.StashKey()
"""Of a test that is run with another model: which one, and where to."""


def options_of(item: pytest.Item) -> dict[str, Any]:
    """Return the options of the cassette of a test that is run with another model; none for any other run."""
    tried = item.stash.get(TRIED, None)
    if tried is None:
        return {}
    return {"candidate": tried.candidate, "to": tried.target, "on_error": "keep", "mode": "none"}


def try_candidates(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Run a test that has passed with each candidate, and with its own model, and keep what came of it in its report.

    Args:
        item: The test. Its own fixtures have been torn down.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
    """
    option, first = item.config.option, item.stash[key]
    session: Session = first.session
    prices = prices_of(item.config)
    recorded = trajectory_of(open_cassette(session.path), prices)
    baseline = option.cassette_baseline if option.cassette_baseline is not None else option.cassette_samples
    try:
        own = [_sample(item, nextitem, key, ("baseline", OWN, n), recorded, prices) for n in range(1, baseline + 1)]
        for candidate in option.cassette_candidate:
            samples = [
                _sample(item, nextitem, key, ("candidate", candidate, number), recorded, prices)
                for number in range(1, option.cassette_samples + 1)
            ]
            _keep(item, Trial(item.nodeid, candidate, recorded, (*own, *samples)))
    finally:
        item.stash[key] = first


def _sample(  # noqa: PLR0917 - private, and called twice
    item: pytest.Item,
    nextitem: pytest.Item | None,
    key: pytest.StashKey[Any],
    which: tuple[Lane, str, int],
    recorded: Trajectory,
    prices: Prices,
) -> Sample:
    lane, candidate, number = which
    target = item.config.rootpath / FOLDER / safe(candidate) / f"{safe(item.nodeid)}.{number}.yaml"
    own_folder(item.config.rootpath)
    target.unlink(missing_ok=True)
    item.stash[TRIED] = Tried(candidate, target)
    if key in item.stash:
        del item.stash[key]  # if the setup fails, there is no other
    try:
        raised = run_again(item, nextitem)
    finally:
        del item.stash[TRIED]
    problem = _problem(raised)
    again = item.stash.get(key, None)
    drift = [one.to_dict() for one in again.session.report.drift] if again is not None else []
    there = target if target.is_file() else None
    return sample_of(lane, number, there, recorded, prices, passed=raised is None, drift=drift, problem=problem)


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
        (f"{prefix}.verdict", trial.judgement or "too few samples"),
        (f"{prefix}.passed", f"{trial.share('candidate'):.3f}"),
        (f"{prefix}.drift", str(sum(len(sample.drift) for sample in trial.lane("candidate")))),
    ]


def fail_under(item: pytest.Item) -> None:
    """Fail a test of which too few samples have passed with a candidate."""
    wanted: float = item.config.option.fail_under
    for trial in trials_in(item.user_properties):
        if trial.share("candidate") < wanted:
            problems = dict.fromkeys(one.problem for one in trial.lane("candidate") if one.problem)
            passed = sum(one.passed for one in trial.lane("candidate"))
            first = (
                f"{passed} of {len(trial.lane('candidate'))} samples passed with {trial.candidate}, below {wanted:g}"
            )
            pytest.fail("\n  ".join([first, *problems]), pytrace=False)


def trials_in(properties: Sequence[tuple[str, object]]) -> list[Trial]:
    """Return the trials that the properties of a report hold, in whatever process they were made."""
    return [_trial(json.loads(str(value))) for name, value in properties if name == _TRIAL]


def _trial(plain: dict[str, Any]) -> Trial:
    samples = [Sample(**{**one, "trajectory": _path(one["trajectory"])}) for one in plain["samples"]]
    return Trial(**{**plain, "recorded": _path(plain["recorded"]), "samples": tuple(samples)})


def _path(plain: dict[str, Any]) -> Trajectory:
    return Trajectory(**{**plain, "calls": tuple(plain["calls"])})


def sections_of(trials: Sequence[Trial]) -> list[tuple[str, list[str]]]:
    """Return the sections of the summary: a table for each candidate."""
    names = dict.fromkeys(trial.candidate for trial in trials)
    return [(f"candidate {name}", lines_of([trial for trial in trials if trial.candidate == name])) for name in names]


def write_trials(path: str, trials: Sequence[Trial]) -> None:
    """Write the trials to a file: as Markdown if it ends with `.md`, else as JSON."""
    target = Path(path)
    os.makedirs(target.parent, exist_ok=True)  # noqa: PTH103 - of the user's own
    text = markdown_of(trials) if target.suffix == ".md" else json.dumps(plain_of(trials), indent=2)
    target.write_text(text, encoding="utf-8")
