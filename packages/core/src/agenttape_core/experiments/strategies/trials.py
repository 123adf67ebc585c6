"""Another model on a recording, tried several times: samples in groups, and the verdicts on them, pair by pair.

There are three groups: the recording, the *baseline* (the program's own model again, with the tools held still) and the
*candidate*. The baseline shows the noise of the model and of the replay itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.experiments.result import Result, Summary, columns, cut, earlier, read
from agenttape_core.experiments.verdicts import (
    ALPHA,
    Pairs,
    Verdict,
    difference_of,
    pairs_to_settle,
    share_of,
    verdict_of,
    verdicts_of,
)
from agenttape_core.tools.report import Trajectory
from agenttape_core.tools.reporting import Checked, Finding, Judged

_SHOWN = 100  # the most characters of an answer in a line
Group = Literal["baseline", "candidate"]

NO_CALL = "made no call"
LOST = "lost its endpoint"
_UNRECORDED = "made an unrecorded call"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run in a group."""

    group: Group
    number: int  # its number in the group, from 1
    passed: bool  # whether the run ended well: the assertions of the test held, the command ended with 0
    unrecorded: tuple[dict[str, Any], ...] = ()  # the calls that left the recorded world, as plain data
    trajectory: Trajectory = field(default_factory=Trajectory)  # the path of the run, and what it took
    seconds: float = 0.0  # the time that its executed calls took
    diverges_at: str = ""  # the first call that differs from the recording's; empty if none does
    answer: str = ""  # the last answer of a model
    run_id: str = ""  # the id of the run, as in its events and its derived cassette
    cassette: str = ""  # the derived cassette, as messages show it; empty if there is none
    problem: str = ""  # the first line of what ended the run, if it did not end well
    unseen: str = ""
    """The reason why it isn't evidence about the model: it made no call, or lost its endpoint, as with a wrong key, or
    where the provider is down; empty if it is."""
    differences: tuple[str, ...] = ()
    """The lines of a unified diff in which a server answered otherwise than it was recorded: what another model writes
    is another answer, and no failure."""

    @property
    def left_out(self) -> str:
        """The reason why it does not count; empty if it does. The end after an unrecorded call isn't evidence."""
        return self.unseen or (_UNRECORDED if self.unrecorded else "")


@dataclass(frozen=True, slots=True)
class Trial:
    """All samples of one test, or of one command."""

    name: str  # the test, or the command
    candidate: str  # the model that is tried
    recorded: Trajectory  # the path of the recording
    samples: tuple[Sample, ...]  # the samples of both groups

    def group(self, group: Group) -> list[Sample]:
        """Return the samples of a group."""
        return [sample for sample in self.samples if sample.group == group]

    def counting(self, group: Group) -> list[Sample]:
        """Return the samples of a group that count."""
        return [sample for sample in self.group(group) if not sample.left_out]

    def passed(self, group: Group) -> int:
        """Return how many samples of a group count and passed."""
        return sum(sample.passed for sample in self.counting(group))

    @property
    def pairs(self) -> Pairs:
        """The pairs of samples with the same number, both of which count."""
        before = {sample.number: sample.passed for sample in self.counting("baseline")}
        both = [(before[one.number], one.passed) for one in self.counting("candidate") if one.number in before]
        worse, better = both.count((True, False)), both.count((False, True))
        return Pairs(better, len(both) - better - worse, worse)

    @property
    def diverges_at(self) -> str:
        """The first call that differs in the candidate's runs, and in none of the baseline's; empty if none does."""
        known = {sample.diverges_at for sample in self.group("baseline") if not sample.unseen}
        seen = (one.diverges_at for one in self.group("candidate") if not one.unseen)
        return next((where for where in seen if where not in {"", *known}), "")

    @property
    def left_out(self) -> dict[str, int]:
        """The reasons why samples do not count, each with their number."""
        return dict(Counter(sample.left_out for sample in self.samples if sample.left_out))

    def is_settled(self, family: int) -> bool:
        """Return whether there is a verdict, whatever the other trials of its family say, so that it may stop."""
        return verdict_of(self.pairs, family=family) != "UNCLEAR"

    def failure(self, family: int, wanted: float | None = None) -> str:
        """Return why the candidate fails; empty if it does not."""
        candidate, passed = self.counting("candidate"), self.passed("candidate")
        groups: tuple[Group, ...] = ("candidate", "baseline")
        for group in groups:
            if (samples := self.group(group)) and not self.counting(group):
                reasons = Counter(sample.left_out for sample in samples)
                why = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
                model = self.candidate if group == "candidate" else "the baseline"
                return f"nothing to judge: no sample of {model} counts ({why})"
        if verdict_of(self.pairs, family=family) == "WORSE":
            own = f"{self.passed('baseline')} of {len(self.counting('baseline'))}"
            return f"WORSE: {passed} of {len(candidate)} samples passed with {self.candidate}, {own} of the baseline"
        if wanted is None:
            wanted = 0.0 if self.group("baseline") else 1.0
        if share_of(passed, len(candidate), alpha=ALPHA / max(family, 1))[1] < wanted:
            return f"{passed} of {len(candidate)} samples passed with {self.candidate}: it is below {wanted:g}"
        return ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a trial within its family."""

    trial: Trial
    verdict: Verdict
    more: int | None
    """The pairs that would settle it if they are like those before; `None` for more than 2,000, or if none counts
    yet."""

    @property
    def dollars(self) -> float:
        """The known cost of those pairs in US dollars: 0 if it's unknown."""
        groups = [[one.trajectory.dollars for one in self.trial.group(group)] for group in ("baseline", "candidate")]
        return (self.more or 0) * sum(fmean(costs) for costs in groups if costs)

    @property
    def notes(self) -> list[str]:
        """Further remarks on the verdict: how many samples do not count, and how many more would settle it."""
        told = [f"{count} {reason}" for reason, count in self.trial.left_out.items()]
        notes = [f"not counted: {', '.join(told)}"] if told else []
        if self.verdict == "UNCLEAR" and not self.trial.group("baseline"):
            notes.append("UNCLEAR: there is no baseline to compare with")
        elif self.verdict == "UNCLEAR" and not self.trial.pairs.total:
            notes.append("UNCLEAR: no pair of samples counts")
        elif self.verdict == "UNCLEAR":
            notes.append(f"UNCLEAR after {counted(int(self.trial.pairs.total), 'pair')} of samples: {self._way_out}")
        return notes

    @property
    def _way_out(self) -> str:
        if self.more is None:
            return "the two are so close to each other that 2000 pairs more would not settle it"
        cost = f"about ${self.dollars:.4f}" if self.dollars else "at an unknown price"
        return f"{counted(self.more, 'pair')} more would settle it if they are like these, {cost}"


def judged(trials: Sequence[Trial]) -> list[Judgement]:
    """Return the judgements on trials that are judged together."""
    family = [trial.pairs for trial in trials]
    with_pairs = [pairs for pairs in family if pairs.total]
    verdicts, more = iter(verdicts_of(with_pairs)), iter(pairs_to_settle(with_pairs))
    return [
        Judgement(trial, next(verdicts), next(more)) if pairs.total else Judgement(trial, "UNCLEAR", None)
        for trial, pairs in zip(trials, family, strict=True)
    ]


def diverges_at(recorded: Trajectory, other: Trajectory) -> str:
    """Return where two runs part: the first call, except of models, that differs; empty if none does."""
    for before, now in zip_longest(_tool_calls(recorded), _tool_calls(other)):
        if before != now:
            return f"{before or 'the end'} → {now or 'the end'}"
    return ""


def _tool_calls(trajectory: Trajectory) -> list[str]:
    return [call for call in trajectory.calls if not call.startswith(("chat ", "completion "))]


def read_trials(path: Path | str) -> list[Trial]:
    """Return the trials of a file that `--cassette-report` or `--report` has written."""
    return earlier(path, "trials", partial(read, Trial))


def samples_before(
    known: Sequence[Trial], name: str, candidate: str, recorded: Trajectory
) -> dict[tuple[Group, int], Sample]:
    """Return the samples of an earlier run of a trial, which aren't taken again."""
    before = [trial for trial in known if trial.name == name]
    for trial in before:
        if (trial.candidate, trial.recorded) != (candidate, recorded):
            now = "another recording" if trial.candidate == candidate else trial.candidate
            raise ConfigurationError(
                f"the trial of {name} can't be resumed: its samples are of {now}, so each would be taken again\n"
                "  leave --resume out to begin again, or name the result of this candidate"
            )
    return {(sample.group, sample.number): sample for trial in before for sample in trial.samples}


_HEADS = ("run", "verdict", "passed", "baseline", "not counted", "calls", "tokens", "money", "diverges at")


def _cells(judgement: Judgement) -> tuple[str, ...]:
    trial = judgement.trial
    candidate = trial.group("candidate")
    return (
        trial.name,
        judgement.verdict,
        _passed(trial, "candidate"),
        _passed(trial, "baseline") if trial.group("baseline") else "-",
        str(sum(trial.left_out.values())),
        f"{len(trial.recorded.calls)} → {_mean(len(one.trajectory.calls) for one in candidate)}",
        f"{trial.recorded.tokens} → {_mean(one.trajectory.tokens for one in candidate)}",
        _money(trial.recorded, candidate),
        trial.diverges_at or "-",
    )


def _passed(trial: Trial, group: Group) -> str:
    return f"{trial.passed(group)}/{len(trial.counting(group))}"


def _mean(numbers: Any) -> str:
    several = list(numbers)
    return f"{fmean(several):.0f}" if several else "-"


def _money(recorded: Trajectory, samples: Sequence[Sample]) -> str:
    now = fmean([sample.trajectory.dollars for sample in samples]) if samples else 0.0
    if not recorded.dollars or not now:
        return "-"
    return f"{(now / recorded.dollars - 1) * 100:+.0f} %"


def lines_of(judgements: Sequence[Judgement]) -> list[str]:
    """Return the table as lines of text, and a line for each further remark."""
    return [
        *columns([_HEADS, *map(_cells, judgements)]),
        *(f"{one.trial.name}: {note}" for one in judgements for note in one.notes),
    ]


def plain_of(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the trials as plain data."""
    return {"trials": [_plain(judgement) for judgement in judged(trials)]}


def _plain(judgement: Judgement) -> dict[str, Any]:
    trial = judgement.trial
    groups: tuple[Group, ...] = ("baseline", "candidate")
    return {
        "name": trial.name,
        "candidate": trial.candidate,
        "verdict": judgement.verdict,
        "difference": difference_of(trial.pairs),
        "pairs": trial.pairs._asdict(),
        "more_pairs": judgement.more,
        "more_dollars": judgement.dollars or None,
        "not_counted": trial.left_out,
        "diverges_at": trial.diverges_at or None,
        "recorded": asdict(trial.recorded),
        "groups": {
            group: {
                "samples": len(trial.group(group)),
                "counted": len(trial.counting(group)),
                "passed": trial.passed(group),
            }
            for group in groups
        },
        "samples": [asdict(sample) | {"left_out": sample.left_out} for sample in trial.samples],
    }


# -- The plan of a trial: the calls and the money that it would take, as far as the recording says it.


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The calls and the cost of the trial of a candidate, if each sample makes the calls of the recording."""

    name: str  # the test, or the command
    candidate: str  # the model that would be tried
    baseline: int  # how many calls of the program's own models would be made
    calls: int  # how many calls of the candidate would be made
    dollars: float  # what they would cost, in US dollars, as far as that is known
    unpriced: tuple[str, ...] = ()  # the models whose price, or the tokens of a recorded call, are not known

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        calls = {"baseline": self.baseline, "candidate": self.calls}
        return {**asdict(self), "calls": calls, "dollars": round(self.dollars, 6)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TrialPlan:
        """Return the plan that `to_dict` made plain."""
        calls = plain["calls"]
        return read(cls, {**plain, "baseline": calls["baseline"], "calls": calls["candidate"]})

    @property
    def price(self) -> str:
        """The cost in words."""
        if not self.unpriced:
            return f"about ${self.dollars:.4f}"
        return f"about ${self.dollars:.4f} and more" if self.dollars else "at an unknown price"


def total_of(plans: Sequence[TrialPlan]) -> TrialPlan:
    """Return all plans as one."""
    unpriced = tuple(dict.fromkeys(name for plan in plans for name in plan.unpriced))
    baseline, calls = sum(plan.baseline for plan in plans), sum(plan.calls for plan in plans)
    return TrialPlan("", "", baseline, calls, sum(plan.dollars for plan in plans), unpriced)


def plans_of(plans: Sequence[TrialPlan]) -> dict[str, Any]:
    """Return plans as plain data, with their totals."""
    total = total_of(plans)
    totals = {"calls": total.baseline + total.calls, "dollars": total.dollars, "all_priced": not total.unpriced}
    return {"plans": [plan.to_dict() for plan in plans], **(totals if plans else {})}


def plan_lines(plans: Sequence[TrialPlan]) -> list[str]:
    """Return a line for each plan, and one for all of them."""
    lines = columns(
        [(plan.name, plan.candidate, f"{counted(plan.baseline + plan.calls, 'call')}, {plan.price}") for plan in plans]
    )
    total = total_of(plans)
    calls = f"{counted(total.baseline + total.calls, 'call')} of models at most"
    return [*lines, f"{calls}, {total.price}, if each sample asks what the recording did"]


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
        wanted = "as often as the baseline"
        found = {name: (Finding(why, wanted, why, rule="model", path=name),) for name, why in failed.items()}
        return [
            Checked(one.name, "", "", (Judged("model", f"{one.candidate} on {one.name}", found.get(one.name, ())),))
            for one in self.trials
        ]

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
