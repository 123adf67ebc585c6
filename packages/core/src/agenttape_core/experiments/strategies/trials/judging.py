"""Judge samples of a run: a candidate is compared with the model that recorded it, pair by pair.

There are three groups: the recording, the *baseline* (the program's own model again, with the tools held still) and the
*candidate*. The baseline shows the noise of the model and of the replay itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.experiments.result import columns, read
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
from agenttape_core.tools.report.trajectory import Trajectory

Group = Literal["baseline", "candidate"]

NO_CALL = "made no call"
LOST = "lost its endpoint"
_UNRECORDED = "made an unrecorded call"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run in a group."""

    group: Group  # the group
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
    where the provider is down; empty if it does."""
    differences: tuple[str, ...] = ()
    """The lines of a unified diff in which a server answered otherwise than it was recorded: what another model writes
    is another answer, and no failure."""

    @property
    def left_out(self) -> str:
        """The reason why it does not count; empty if it does.

        After an unrecorded call, the end of the run isn't evidence.
        """
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

    trial: Trial  # the trial
    verdict: Verdict  # the verdict
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


# -- Read back the trials of an earlier run, as their table was written as JSON.


def read_trials(path: Path | str) -> list[Trial]:
    """Return the trials of a file that `--cassette-report` or `--report` has written."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
        return [read(Trial, one) for one in plain.get("trials", [plain])]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        said = error.strerror or error if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"{path}: no trials of candidates that could be resumed: {said}\n"
            "  name the JSON file that --cassette-report (pytest) or --report (agenttape lab model) has written"
        ) from None


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


# -- The table of trials, as text, as Markdown and as plain data.


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
