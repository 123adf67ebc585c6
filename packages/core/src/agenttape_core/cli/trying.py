"""A candidate on a command: what `agenttape replay --candidate --samples` does."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from agenttape_core.cli.app import FINDINGS
from agenttape_core.cli.output import print_json, print_text, printable
from agenttape_core.errors import BudgetExceededError, counted

if TYPE_CHECKING:
    from agenttape_core.experiments.strategies.trials import Sample, Trial
    from agenttape_core.experiments.strategies.trials.commands import CommandTrial
    from agenttape_core.tools.processes.command import Command


class Trying(NamedTuple):
    """The trial that a command line asks for.

    Args:
        candidate: The name of the model.
        samples: How often it is tried.
        baseline: How often the command's own model is asked again.
        folder: The folder of the derived cassettes; by default one below `.agenttape`.
        output: The file of the result, as JSON; `None` for none.
        max_usd: The most that calls of models may cost, in US dollars; `None` for any amount.
        resume: The result of an earlier trial, whose samples are not taken again; `None` for none.
    """

    candidate: str
    samples: int
    baseline: int
    folder: str | None
    output: str | None
    max_usd: float | None = None
    resume: str | None = None


def tried(
    words: tuple[str, ...] | Command,
    cassette: str | None,
    how: Trying,
    options: Mapping[str, Any],
    *,
    plans: bool,
    as_json: bool,
) -> int:
    """Try a candidate on a command, print the table, and return the exit code: 1 if it is worse or left the recording.

    The result is written after each sample, so what was done is there if the trial is interrupted.

    Args:
        words: The command.
        cassette: Its cassette.
        how: The trial.
        options: The options of `use_cassette` that were given.
        plans: Whether nothing is executed.
        as_json: Whether the result is printed as JSON.
    """
    from agenttape_core.experiments.strategies.trials import read_trials
    from agenttape_core.experiments.strategies.trials.commands import CommandTrial
    from agenttape_core.tools.processes.command import Command, command_of
    from agenttape_core.tools.processes.run import path_of

    command = words if isinstance(words, Command) else command_of(words)
    known = read_trials(how.resume) if how.resume else []
    trying = CommandTrial(
        command,
        cassette,
        how.candidate,
        how.samples,
        how.baseline,
        Path(how.folder) if how.folder else Path(".agenttape") / "candidates" / how.candidate.replace(":", "-"),
        {"drift": "report", **options},
        how.max_usd,
        known[0] if known else None,
    )
    if plans:
        return _plan(trying, as_json=as_json)
    facts = {"run_id": uuid.uuid4().hex, "source": str(path_of(cassette or command.name))}
    so_far: list[Trial] = []

    def keep(trial: Trial) -> None:
        so_far[:] = [trial]
        if how.output:
            Path(how.output).write_text(json.dumps(facts | _plain(trial), indent=2), encoding="utf-8")

    if not how.folder:
        _own_folder()
    try:
        trial = trying.samples_taken(apart=as_json, keep=keep)
    except (KeyboardInterrupt, BudgetExceededError):
        _show(so_far, facts, as_json=as_json)
        raise
    _show([trial], facts, as_json=as_json)
    candidate, failure = trial.lane("candidate"), trial.failure(1)
    _explain(candidate)
    if failure:
        click.echo(printable(failure), err=True)
    fails = options.get("drift", "fail") == "fail" and any(sample.drift for sample in candidate)
    return FINDINGS if fails or failure else 0


def _explain(samples: Sequence[Sample]) -> None:
    """Print why samples failed, each reason once, with the number of samples."""
    reasons = Counter(sample.problem for sample in samples if not sample.passed and sample.problem)
    for reason, count in reasons.items():
        click.echo(printable(f"{count} of {counted(len(samples), 'sample')} failed: {reason}"), err=True)


def _plan(trying: CommandTrial, *, as_json: bool) -> int:
    plan = trying.plan()
    if as_json:
        print_json(plan.to_dict())
    else:
        print_text(f"{plan.candidate}: at least {plan.baseline + plan.calls} calls of models, {plan.price}")
    return 0


def _own_folder() -> None:
    from agenttape_core.tools.upkeep.verified import own_folder

    own_folder(Path.cwd())  # which git ignores


def _plain(trial: Trial) -> dict[str, Any]:
    from agenttape_core.experiments.strategies.trials import plain_of

    return dict(plain_of([trial])["trials"][0])


def _show(trials: list[Trial], facts: Mapping[str, Any], *, as_json: bool) -> None:
    from agenttape_core.experiments.strategies.trials import judged, lines_of

    if as_json and trials:
        print_json({**facts, **_plain(trials[0])})
    elif trials:
        print_text("\n".join(lines_of(judged(trials))))
    else:
        click.echo(printable("no sample was taken"), err=True)
