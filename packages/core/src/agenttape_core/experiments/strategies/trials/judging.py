"""Judge samples of a run: a candidate is compared with the model that recorded it, pair by pair.

There are three lanes: the recording, the *baseline* (the program's own model again, with the tools held still) and the
*candidate*. The baseline shows the noise of the model and of the replay itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import fmean
from typing import Any, Literal

from agenttape_core.errors import counted
from agenttape_core.experiments.verdicts import (
    ALPHA,
    Pairs,
    Verdict,
    pairs_to_settle,
    share_of,
    verdict_of,
    verdicts_of,
)
from agenttape_core.tools.report.trajectory import Trajectory

Lane = Literal["baseline", "candidate"]

NO_CALL = "made no call"
LOST = "lost its endpoint"
_UNRECORDED = "made an unrecorded call"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run in a lane.

    Args:
        lane: The lane.
        number: Its number in the lane, from 1.
        passed: Whether the run ended well: the assertions of the test held, the command ended with 0.
        unrecorded: The calls that left the recorded world, as plain data.
        trajectory: The path of the run, and what it took.
        seconds: The time that its executed calls took.
        parts_at: The first call that differs from the recording's; empty if none does.
        answer: The last answer of a model.
        run_id: The id of the run, as in its events and its derived cassette.
        cassette: The derived cassette, as messages show it; empty if there is none.
        problem: The first line of what ended the run, if it did not end well.
        unseen: The reason why it says nothing about the model: it made no call, or lost its endpoint, as with a wrong
            key, or where the provider is down; empty if it does.
        differences: The lines of a unified diff in which a server answered otherwise than it was recorded: what another
            model writes is another answer, and no failure.
    """

    lane: Lane
    number: int
    passed: bool
    unrecorded: tuple[dict[str, Any], ...] = ()
    trajectory: Trajectory = field(default_factory=Trajectory)
    seconds: float = 0.0
    parts_at: str = ""
    answer: str = ""
    run_id: str = ""
    cassette: str = ""
    problem: str = ""
    unseen: str = ""
    differences: tuple[str, ...] = ()

    @property
    def left_out(self) -> str:
        """The reason why it does not count; empty if it does.

        After a call that nobody has recorded, how the run would have ended is not known.
        """
        return self.unseen or (_UNRECORDED if self.unrecorded else "")


@dataclass(frozen=True, slots=True)
class Trial:
    """All samples of one test, or of one command.

    Args:
        name: The test, or the command.
        candidate: The model that is tried.
        recorded: The path of the recording.
        samples: The samples of both lanes.
    """

    name: str
    candidate: str
    recorded: Trajectory
    samples: tuple[Sample, ...]

    def lane(self, lane: Lane) -> list[Sample]:
        """Return the samples of a lane."""
        return [sample for sample in self.samples if sample.lane == lane]

    def counting(self, lane: Lane) -> list[Sample]:
        """Return the samples of a lane that count."""
        return [sample for sample in self.lane(lane) if not sample.left_out]

    def passed(self, lane: Lane) -> int:
        """Return how many samples of a lane count and passed."""
        return sum(sample.passed for sample in self.counting(lane))

    @property
    def pairs(self) -> Pairs:
        """The pairs of samples with the same number, both of which count."""
        before = {sample.number: sample.passed for sample in self.counting("baseline")}
        both = [(before[one.number], one.passed) for one in self.counting("candidate") if one.number in before]
        worse, better = both.count((True, False)), both.count((False, True))
        return Pairs(better, len(both) - better - worse, worse)

    @property
    def parts_at(self) -> str:
        """The first call that differs in the candidate's runs, and in none of the baseline's; empty if none does."""
        known = {sample.parts_at for sample in self.lane("baseline") if not sample.unseen}
        seen = (one.parts_at for one in self.lane("candidate") if not one.unseen)
        return next((where for where in seen if where not in {"", *known}), "")

    @property
    def left_out(self) -> dict[str, int]:
        """The reasons why samples do not count, each with their number."""
        return dict(Counter(sample.left_out for sample in self.samples if sample.left_out))

    def is_settled(self, family: int) -> bool:
        """Return whether there is a verdict, whatever the other trials of its family say, so that it may stop.

        Args:
            family: The number of trials that are judged together.
        """
        return verdict_of(self.pairs, family=family) != "UNCLEAR"

    def failure(self, family: int, wanted: float | None = None) -> str:
        """Return why the candidate fails; empty if it does not.

        Args:
            family: The number of trials that are judged together.
            wanted: The share of samples that must pass; `None` for as many as of the baseline. Without a baseline, all.
        """
        candidate, passed = self.counting("candidate"), self.passed("candidate")
        lanes: tuple[Lane, ...] = ("candidate", "baseline")
        for lane in lanes:
            if (samples := self.lane(lane)) and not self.counting(lane):
                reasons = Counter(sample.left_out for sample in samples)
                why = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
                model = self.candidate if lane == "candidate" else "the baseline"
                return f"nothing to judge: no sample of {model} counts ({why})"
        if verdict_of(self.pairs, family=family) == "WORSE":
            own = f"{self.passed('baseline')} of {len(self.counting('baseline'))}"
            return f"WORSE: {passed} of {len(candidate)} samples passed with {self.candidate}, {own} of the baseline"
        if wanted is None:
            wanted = 0.0 if self.lane("baseline") else 1.0
        if share_of(passed, len(candidate), alpha=ALPHA / max(family, 1))[1] < wanted:
            return f"{passed} of {len(candidate)} samples passed with {self.candidate}: it is below {wanted:g}"
        return ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a trial among those of its family.

    Args:
        trial: The trial.
        verdict: The verdict.
        more: The pairs that would settle it if they are like those before; `None` for more than 2,000, or if none
            counts yet.
    """

    trial: Trial
    verdict: Verdict
    more: int | None

    @property
    def dollars(self) -> float:
        """The cost of those pairs in US dollars, as far as it is known: 0 if it is not."""
        lanes = [[one.trajectory.dollars for one in self.trial.lane(lane)] for lane in ("baseline", "candidate")]
        return (self.more or 0) * sum(fmean(costs) for costs in lanes if costs)

    @property
    def notes(self) -> list[str]:
        """The things to know besides the verdict: how many samples do not count, and how many more would settle it."""
        told = [f"{count} {reason}" for reason, count in self.trial.left_out.items()]
        notes = [f"not counted: {', '.join(told)}"] if told else []
        if self.verdict == "UNCLEAR" and not self.trial.lane("baseline"):
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
    """Return the judgements on trials that are judged together.

    Args:
        trials: The trials.
    """
    family = [trial.pairs for trial in trials]
    with_pairs = [pairs for pairs in family if pairs.total]
    verdicts, more = iter(verdicts_of(with_pairs)), iter(pairs_to_settle(with_pairs))
    return [
        Judgement(trial, next(verdicts), next(more)) if pairs.total else Judgement(trial, "UNCLEAR", None)
        for trial, pairs in zip(trials, family, strict=True)
    ]


def parts_at(recorded: Trajectory, other: Trajectory) -> str:
    """Return where two runs part: the first call besides those of models that differs; empty if none does."""
    for before, now in zip_longest(_acts(recorded), _acts(other)):
        if before != now:
            return f"{before or 'the end'} → {now or 'the end'}"
    return ""


def _acts(trajectory: Trajectory) -> list[str]:
    return [call for call in trajectory.calls if not call.startswith(("chat ", "completion "))]
