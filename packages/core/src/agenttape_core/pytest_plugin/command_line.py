"""The options of the command line, and those of them that are refused at the start of a run.

This module is imported at the start of every run of pytest, so it imports nothing that only tests with a cassette need.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_REPLAYING = (None, "none", "replay", "once")


def add_options(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("agenttape", "AgentTape cassettes")
    group.addoption(
        "--cassette-mode",
        metavar="MODE",
        help="open the cassettes of all tests in this mode: none (replay), once, new_episodes, update, all (record)",
    )
    group.addoption(
        "--rerecord",
        nargs="?",
        const="all",
        choices=["all", "failed", "stale", "changed", "plan"],
        help="record anew: all selected tests; those that failed in the last run; those older than --cassette-max-age; "
        "changed: only those calls that have changed; plan: nothing, and say what changed would take",
    )
    group.addoption("--force-record", dest="rerecord", action="store_const", const="all", help="the same as --rerecord")
    group.addoption(
        "--cassette-pending",
        action="store_true",
        help="let new recordings of what is recorded already wait for `agenttape review`, beside their cassettes",
    )
    group.addoption(
        "--cassette-pace",
        metavar="PACE",
        help="the time that replays take: none, recorded, a factor of it, or virtual, which nobody waits for",
    )
    group.addoption(
        "--cassette-max-usd",
        metavar="DOLLARS",
        type=float,
        help="with --rerecord=changed or --cassette-lab=model:MODEL: make no call of a model that would cost more "
        "than is left of this",
    )
    group.addoption(
        "--cassette-plan",
        metavar="FILE",
        nargs="?",
        const="",
        help="with --rerecord=plan: write what it would take to a file, as JSON; with --cassette-lab=model: ask no "
        "model, and say what it would take",
    )
    group.addoption(
        "--cassette-max-age",
        metavar="AGE",
        help="fail tests whose cassette is older than so many days (90, 90d), hours (12h) or weeks (6w)",
    )
    group.addoption(
        "--fail-on-orphans", action="store_true", help="fail if there are cassettes that belong to no collected test"
    )
    group.addoption(
        "--cassette-artifacts",
        metavar="DIR",
        help="keep the report of a failing test, its cassette, and its new recording",
    )
    group.addoption(
        "--cassette-lab",
        metavar="NAME[:key=value,...]",
        action="append",
        default=[],
        help="run an experiment on the tests that pass with their recordings: faults[:KINDS], orders[:RUNS,seed=N], "
        "mutants[:RUNS], model:MODEL, or live, which calls everything for real and compares; repeatable",
    )
    group.addoption(
        "--cassette-samples",
        metavar="N",
        type=int,
        default=10,
        help="try a candidate at most so often on each test, and less often where the verdict is clear before (10)",
    )
    group.addoption(
        "--cassette-baseline",
        metavar="N",
        type=int,
        help="compare with at most so many samples of the test's own model; by default as many as of a candidate",
    )
    group.addoption(
        "--fail-under",
        metavar="SHARE",
        type=float,
        help="also fail a test if it is certain that a candidate passes less often than this share, such as 0.8",
    )
    group.addoption(
        "--cassette-report",
        metavar="FILE",
        help="write the result of the experiment to a file: .json, .md; of faults also .sarif, .trx, or .xml (JUnit)",
    )
    group.addoption(
        "--cassette-resume",
        metavar="FILE",
        help="go on with the candidates of an earlier run, whose --cassette-report this is: its samples are kept",
    )
    group.addoption(
        "--cassette-summary",
        metavar="FILE",
        action="append",
        default=[],
        help="write a report on the tests with a cassette: .md, .sarif, .trx, or .xml for JUnit; repeatable",
    )
    group.addoption(
        "--cassette-order",
        metavar="ORDER",
        help="answer these calls first where several wait, in this order, such as 5,3; as a finding of orders says",
    )
    group.addoption(
        "--cassette-prove",
        metavar="HOW",
        choices=["true", "false", "fail"],
        help="replay a test at once that has recorded: true (report a difference), fail (fail for it), false (do not)",
    )


EXPERIMENTS = {
    "faults": ("kinds",),
    "orders": ("runs", "seed"),
    "mutants": ("runs",),
    "model": ("model",),
    "live": (),
}
"""The experiments, and what can be given for each; what has no name is for the first."""


def choose_experiments(config: pytest.Config) -> None:
    """Set what each experiment of the run varies.

    Raises:
        pytest.UsageError: If there's no such experiment, or nothing of that name can be given for it.
    """
    option = config.option
    option.faults = option.explore = option.adequacy = None
    option.explore_seed, option.cassette_drift, option.cassette_candidate = 7, False, []
    for text in option.cassette_lab:
        name, _, rest = text.partition(":")
        if name not in EXPERIMENTS:
            raise pytest.UsageError(f"--cassette-lab={text}: there's no {name!r}; there are {', '.join(EXPERIMENTS)}")
        given = _given(text, rest, EXPERIMENTS[name])
        if name == "faults":
            option.faults = given.get("kinds", "all")
        elif name == "orders":
            option.explore = _number(text, given.get("runs", "200"))
            option.explore_seed = _number(text, given.get("seed", "7"))
        elif name == "mutants":
            option.adequacy = _number(text, given.get("runs", "200"))
        elif name == "live":
            option.cassette_drift = True
        elif "model" in given:
            option.cassette_candidate.append(given["model"])
        else:
            raise pytest.UsageError(f"--cassette-lab={text}: name the model: --cassette-lab=model:openai:gpt-5-mini")


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
    """Refuse options that say nothing, or that do not go together.

    Raises:
        pytest.UsageError: If there are such options.
    """
    choose_experiments(config)
    if config.option.faults is not None or (config.option.cassette_report and not config.option.cassette_candidate):
        from agenttape_core.pytest_plugin.faulting import refuse_unknown as refuse_unknown_faults

        refuse_unknown_faults(config)
    if config.option.rerecord == "stale" and config.option.cassette_max_age is None:
        raise pytest.UsageError(
            "--rerecord=stale needs --cassette-max-age: the age that a cassette may have, for example 90d"
        )
    _refuse_plan(config.option.cassette_plan, config)
    if config.option.cassette_drift and (config.option.cassette_candidate or config.option.rerecord is not None):
        raise pytest.UsageError("--cassette-lab=live excludes --cassette-lab=model and --rerecord")
    _refuse_candidates(config)
    if config.option.cassette_samples < 1 or (config.option.cassette_baseline or 0) < 0:
        raise pytest.UsageError("--cassette-samples takes a number from 1, --cassette-baseline one from 0")
    if config.option.cassette_max_usd is not None:
        if config.option.rerecord != "changed" and not config.option.cassette_candidate:
            raise pytest.UsageError("--cassette-max-usd needs --rerecord=changed or --cassette-lab=model:MODEL")
        from agenttape_core.pytest_plugin.planning import keep_to

        keep_to(config.option.cassette_max_usd, config)
    _refuse_pace(config.option.cassette_pace)
    _refuse_edits(config.option.adequacy)
    if config.option.explore is not None or config.option.cassette_order is not None:
        from agenttape_core.pytest_plugin.exploring import refuse_unknown as refuse_unknown_orders

        refuse_unknown_orders(config)
    if config.option.cassette_summary:
        from agenttape_core.pytest_plugin.reporting import refuse_unknown

        refuse_unknown(config.option.cassette_summary)


def _refuse_plan(file: str | None, config: pytest.Config) -> None:
    if file is None:
        return
    if config.option.rerecord != "plan" and not config.option.cassette_candidate:
        raise pytest.UsageError("--cassette-plan needs --rerecord=plan or --cassette-lab=model:MODEL")
    if not file and config.option.rerecord == "plan":
        raise pytest.UsageError("--cassette-plan needs a file with --rerecord=plan: --cassette-plan=plan.json")
    if file and (Path(file).is_dir() or "::" in file or file.endswith(".py")):
        raise pytest.UsageError(
            f"--cassette-plan={file}: no file for a plan; write --cassette-plan=FILE, or put it last"
        )


def _refuse_candidates(config: pytest.Config) -> None:
    option = config.option
    if not option.cassette_candidate:
        if option.cassette_resume is not None:
            raise pytest.UsageError("--cassette-resume needs --cassette-lab=model:MODEL")
        return
    if option.rerecord is not None or option.cassette_mode not in _REPLAYING:
        raise pytest.UsageError(
            "--cassette-lab=model excludes --rerecord and a --cassette-mode that records: it is tried on recordings"
        )
    if option.fail_under is not None and not 0 <= option.fail_under <= 1:
        raise pytest.UsageError(f"--fail-under={option.fail_under:g}: expected a share of the samples, from 0 to 1")
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


def _refuse_edits(edits: int | None) -> None:
    if edits is not None and edits < 1:
        raise pytest.UsageError(f"--cassette-lab=mutants:runs={edits}: expected the number of edits to try, at least 1")


def _refuse_pace(pace: str | None) -> None:
    if pace is None:
        return
    from agenttape_core.errors import ConfigurationError
    from agenttape_core.settings import pace_of

    try:
        pace_of(pace)
    except ConfigurationError as error:
        raise pytest.UsageError(f"--cassette-pace: {error}") from None
