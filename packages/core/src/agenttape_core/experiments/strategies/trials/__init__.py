"""Another model on a recording, tried several times: samples in groups, and their worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agenttape_core.errors import counted
from agenttape_core.experiments.result import Result, Summary, cut, read
from agenttape_core.experiments.strategies.trials.judging import Sample, Trial, judged, lines_of, plain_of
from agenttape_core.experiments.strategies.trials.sampling import TrialPlan, plan_lines, plans_of
from agenttape_core.tools.reporting.findings import Checked, Finding, Judged

_SHOWN = 100
"""The most characters of an answer in a line."""


@dataclass(frozen=True, slots=True)
class Trials(Result):
    """The trials of a candidate, which are judged together.

    Args:
        trials: A trial for each recording.
        wanted: The share of samples that must pass; `None` for as many as of the baseline.
        is_whole: Whether it was not interrupted.
        plans: The calls that they would take, in a dry run.
        stopped: The reason why samples are missing; empty if none is.
    """

    trials: tuple[Trial, ...]
    wanted: float | None = None
    is_whole: bool = True
    plans: tuple[TrialPlan, ...] = ()
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """True if the candidate fails with no recording, and the money sufficed."""
        return not (self.failures or self.stopped)

    @property
    def failures(self) -> list[str]:
        """The reasons why the candidate fails, a line for each recording with which it does."""
        family = len(self.trials)
        found = [(one.name, one.failure(family, self.wanted)) for one in self.trials]
        worse = {one.trial.name for one in judged(self.trials) if one.verdict == "WORSE"}
        return [f"{name}: {why or 'WORSE'}" for name, why in found if why or name in worse]

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain data."""
        return {**plain_of(self.trials), **plans_of(self.plans)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Trials:
        """Return the trials and plans that `to_dict` made plain."""
        plans = tuple(map(TrialPlan.from_dict, plain["plans"]))
        return cls(tuple(read(Trial, one) for one in plain["trials"]), plans=plans)

    experiment = "model"

    def to_checked(self) -> list[Checked]:
        """Return them for the reporters of checks: a check for each recording."""
        failed = {line.partition(": ")[0]: line for line in self.failures}
        return [Checked(one.name, "", "", (_judged(one, failed.get(one.name, "")),)) for one in self.trials]

    def summary(self) -> Summary:
        """Return the verdicts and the samples, or the plans."""
        return Summary("", "", *self._text())

    def _text(self) -> tuple[str, list[str]]:
        if self.plans:
            return (lines := plan_lines(self.plans))[0], lines[1:]
        lines = lines_of(judged(self.trials)) if self.trials else ["no sample was taken"]
        for trial in self.trials:
            lines += [f"{trial.name}: {_said(trial, sample)}" for sample in trial.samples]
            reasons = Counter(one.problem for one in trial.samples if not one.passed and one.problem)
            total = counted(len(trial.samples), "sample")
            lines += [f"{trial.name}: {count} of {total} failed: {why}" for why, count in reasons.items()]
        return lines[0], [*lines[1:], *self.failures, *filter(None, [self.stopped])]


def _said(trial: Trial, sample: Sample) -> str:
    model = trial.candidate if sample.group == "candidate" else "baseline"
    how = sample.left_out or ("passed" if sample.passed else "failed")
    shown = cut(" ".join(sample.answer.split()), _SHOWN)
    return "  ".join(filter(None, [f"{model} {sample.number}", how, sample.run_id[:12], shown]))


def _judged(trial: Trial, why: str) -> Judged:
    found = (
        (Finding(why, expected="as often as the baseline", found=why, rule="model", path=trial.name),) if why else ()
    )
    return Judged("model", f"{trial.candidate} on {trial.name}", found)
