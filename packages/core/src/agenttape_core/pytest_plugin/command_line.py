"""The options of the command line, and which of them are refused at the start of a run.

This module is imported at the start of every run of pytest, so it imports only what tests without a cassette need.
"""

from __future__ import annotations

import argparse
import inspect

import pytest

_REPLAYING = (None, "replay", "none", "once")


def add_options(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("agenttape", "AgentTape")
    group.addoption(
        "--cassette-mode",
        metavar="MODE",
        help="open the cassettes of all tests in this mode: replay, once, add, update, record",
    )
    group.addoption(
        "--rerecord",
        nargs="?",
        const="all",
        choices=["all", "failed", "stale", "changed"],
        help="record again: all selected tests; those that failed in the last run; those older than "
        "--cassette-max-age; or only the calls that changed",
    )
    group.addoption(
        "--cassette-dry-run",
        action="store_true",
        help="make no call, and show the calls that --rerecord=changed or --cassette-lab=model would make",
    )
    group.addoption(
        "--cassette-max-usd",
        metavar="DOLLARS",
        type=float,
        help="with --rerecord=changed or --cassette-lab=model: make no call of a model that may cost more than is left",
    )
    group.addoption(
        "--cassette-review", action="store_true", help="keep new recordings next to the cassettes, for agenttape review"
    )
    group.addoption(
        "--cassette-max-age",
        metavar="AGE",
        help="fail tests whose cassette is older than so many days (90, 90d), hours (12h) or weeks (6w)",
    )
    group.addoption(
        "--cassette-strict",
        metavar="WHAT",
        type=_strictness,
        default=(),
        help="fail for cassettes of no test (orphans), or for recordings that don't replay (replay-check); "
        "separate several by commas",
    )
    group.addoption(
        "--cassette-report",
        metavar="FILE",
        action="append",
        default=[],
        help="write a report on tests with a cassette: .md, .sarif, .trx, or .xml for JUnit; or all of "
        "it, or the result of a dry run or an experiment, as .json; repeatable",
    )
    group.addoption(
        "--cassette-artifacts",
        metavar="DIR",
        help="keep the report of a failing test, its cassette, and its new recording",
    )
    group = parser.getgroup("agenttape-experiments", "AgentTape experiments")
    group.addoption(
        "--cassette-lab",
        metavar="NAME[:key=value,...]",
        action="append",
        default=[],
        help="run an experiment on the tests that pass with their recordings: faults[:KINDS], orders[:RUNS,seed=N], "
        "mutants[:RUNS], model:MODEL, flaky[:SAMPLES], why, change:BASE, live, which calls everything for real and "
        "compares; shrink and bisect:GOOD on those that fail; repeatable. Options are those of agenttape lab",
    )
    group.addoption(
        "--cassette-samples",
        metavar="N[/N]",
        type=_samples,
        default=(10, 10),
        help="try a model at most N times on each test, and after the slash the test's own model; fewer if the verdict "
        "is clear before (10/10)",
    )
    group.addoption(
        "--cassette-fail-under",
        metavar="SHARE",
        type=float,
        help="fail a test if it is certain that a model passes less often than this share, such as 0.8",
    )
    group.addoption(
        "--cassette-resume",
        metavar="FILE",
        help="take over the samples or faults of an earlier run from its JSON --cassette-report",
    )
    group.addoption(
        "--cassette-pace",
        metavar="PACE",
        help="the time that replays take: none, recorded, a factor of it, or virtual, which takes no time",
    )
    group.addoption(
        "--cassette-order",
        metavar="ORDER",
        help="answer these calls first where several wait, in this order, such as 5,3; as a finding of orders says",
    )


def _strictness(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if unknown := sorted({*found} - {"orphans", "replay-check"}):
        raise argparse.ArgumentTypeError(f"expected orphans or replay-check, found {unknown[0]!r}")
    return found


def _samples(text: str) -> tuple[int, int]:
    candidate, slash, own = text.partition("/")
    if not candidate.isdigit() or int(candidate) < 1 or (slash and not own.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a number from 1, and after a slash one from 0; found {text!r}")
    return int(candidate), int(own if slash else candidate)


EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "faults": ("kinds",),
    "orders": ("runs",),
    "mutants": ("runs",),
    "model": ("model", "live", "to"),
    "live": (),
    "flaky": ("samples",),
    "why": ("call",),
    "shrink": ("runs",),
    "change": ("base",),
    "bisect": ("good",),
}
"""The experiments, and the options of each; a value without a name is for the first. All but `model` and `live` also
take the options of the function of that name."""

_OF_ONE_TEST = frozenset({"faults", "flaky", "why", "model"})
"""Those that take jobs for a function, but replay a test in the process of pytest."""


def choose_experiments(config: pytest.Config) -> None:
    """Set what each experiment varies. Raises `pytest.UsageError` if it or its option doesn't exist."""
    option = config.option
    option.cassette_drift, option.cassette_candidate = False, []
    option.candidate_options, option.cassette_experiments = {}, {}
    for text in option.cassette_lab:
        name, _, rest = text.partition(":")
        if name not in EXPERIMENTS:
            raise pytest.UsageError(f"--cassette-lab={text}: there's no {name!r}; there are {', '.join(EXPERIMENTS)}")
        if name in _OF_ONE_TEST and "jobs" in (piece.partition("=")[0] for piece in rest.split(",")):
            raise pytest.UsageError(
                f"--cassette-lab={text}: pytest runs the replays of a test one after another\n"
                f"  run several tests at a time with pytest-xdist:  pytest -n N --cassette-lab={name}"
            )
        if name not in {"model", "live"}:
            option.cassette_experiments[name] = _of_function(text, name, rest)
            continue
        given = _given(text, rest, EXPERIMENTS[name])
        if name == "live":
            option.cassette_drift = True
        elif "model" in given:
            option.cassette_candidate.append(given.pop("model"))
            option.candidate_options |= given
        else:
            raise pytest.UsageError(f"--cassette-lab={text}: name the model: --cassette-lab=model:openai:gpt-5-mini")


def _of_function(text: str, name: str, rest: str) -> dict[str, object]:
    """Return the options of an experiment, as its function takes them."""
    from agenttape_core import experiments
    from agenttape_core.experiments.engine import SHARED, refusal

    apart = {"target", "cassette", "on_run", "options"}
    parameters = inspect.signature(getattr(experiments, name)).parameters.values()
    known = {one.name: str(one.annotation) for one in parameters if one.name not in apart}
    for piece in rest.split(","):
        word = piece.partition("=")[0]
        if word in SHARED and word not in known:
            raise pytest.UsageError(f"--cassette-lab={text}: {refusal(name, word, word)}")
    given = _given(text, rest, tuple(dict.fromkeys([*EXPERIMENTS[name], *known])))
    if name in {"change", "bisect"} and EXPERIMENTS[name][0] not in given:
        word = EXPERIMENTS[name][0]
        raise pytest.UsageError(f"--cassette-lab={text}: name the revision: --cassette-lab={name}:{word}=main")
    return {word: _typed(text, value, known[word]) for word, value in given.items()}


def _typed(text: str, value: str, kind: str) -> object:
    """Return a value in the type of a parameter."""
    if kind.startswith(("Sequence", "Collection", "Iterable")):
        return None if value == "all" else tuple(word.strip() for word in value.split(",") if word.strip())
    if kind.startswith("bool"):
        return value not in {"false", "no", "0"}
    if kind.startswith("float"):
        try:
            return float(value)
        except ValueError:
            raise pytest.UsageError(f"--cassette-lab={text}: expected a number, found {value!r}") from None
    return _number(text, value) if kind.startswith("int") else value


def _given(text: str, rest: str, names: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    last = next(iter(names), "")
    for piece in rest.split(",") if rest else ():
        key, equals, value = piece.partition("=")
        if not equals or key not in names:
            if not names:
                raise pytest.UsageError(f"--cassette-lab={text}: nothing can be given for it")
            key, value = last, piece if last not in given else f"{given[last]},{piece}"
        given[key] = value
        last = key
    return given


def _number(text: str, value: str) -> int:
    if not value.lstrip("-").isdigit():
        raise pytest.UsageError(f"--cassette-lab={text}: expected a number, found {value!r}")
    return int(value)


def refuse(config: pytest.Config) -> None:
    """Refuse options that have no effect, or exclude each other, with a `pytest.UsageError`."""
    choose_experiments(config)
    option = config.option
    if option.rerecord == "stale" and option.cassette_max_age is None:
        raise pytest.UsageError(
            "--rerecord=stale needs --cassette-max-age: the age that a cassette may have, for example 90d"
        )
    _choose_plan(option)
    if option.cassette_drift and (option.cassette_candidate or option.rerecord is not None):
        raise pytest.UsageError("--cassette-lab=live excludes --cassette-lab=model and --rerecord")
    _refuse_candidates(config)
    if option.cassette_max_usd is not None:
        if option.rerecord != "changed" and not option.cassette_candidate:
            raise pytest.UsageError("--cassette-max-usd needs --rerecord=changed or --cassette-lab=model:MODEL")
        from agenttape_core.pytest_plugin.planning import keep_to

        keep_to(option.cassette_max_usd, config)
    _refuse_pace(option.cassette_pace)
    if option.cassette_experiments.keys() & {"faults", "orders"} or option.cassette_order is not None:
        from agenttape_core.pytest_plugin.experimenting import refuse_unknown

        refuse_unknown(config)
    if option.cassette_report:
        from agenttape_core.pytest_plugin.reporting import refuse_unknown

        refuse_unknown(config)


def _choose_plan(option: argparse.Namespace) -> None:
    """Set whether the run only plans: a dry run of what changed, unless a model is tried."""
    option.cassette_plans = option.cassette_dry_run and not option.cassette_candidate
    if not option.cassette_plans:
        return
    if option.rerecord not in {None, "changed"}:
        raise pytest.UsageError("--cassette-dry-run shows what --rerecord=changed or --cassette-lab=model would do")
    option.rerecord = "changed"


def _refuse_candidates(config: pytest.Config) -> None:
    option = config.option
    if not option.cassette_candidate:
        if option.cassette_resume is not None and "faults" not in option.cassette_experiments:
            raise pytest.UsageError("--cassette-resume needs --cassette-lab=model:MODEL or --cassette-lab=faults")
        return
    if option.rerecord is not None or option.cassette_mode not in _REPLAYING:
        raise pytest.UsageError(
            "--cassette-lab=model excludes --rerecord and a --cassette-mode that records: it is tried on recordings"
        )
    if option.cassette_fail_under is not None and not 0 <= option.cassette_fail_under <= 1:
        raise pytest.UsageError(
            f"--cassette-fail-under={option.cassette_fail_under:g}: expected a share of the samples, from 0 to 1"
        )
    if option.cassette_resume is not None:
        from agenttape_core.errors import ConfigurationError
        from agenttape_core.experiments.strategies.trials import read_trials

        try:
            known = {trial.candidate for trial in read_trials(option.cassette_resume)}
        except ConfigurationError as error:
            raise pytest.UsageError(f"--cassette-resume: {error}") from None
        if known and known.isdisjoint(option.cassette_candidate):
            raise pytest.UsageError(
                f"--cassette-resume={option.cassette_resume}: it holds samples of {', '.join(sorted(known))} only"
            )


def _refuse_pace(pace: str | None) -> None:
    if pace is None:
        return
    from agenttape_core.errors import ConfigurationError
    from agenttape_core.settings import pace_of

    try:
        pace_of(pace)
    except ConfigurationError as error:
        raise pytest.UsageError(f"--cassette-pace: {error}") from None
