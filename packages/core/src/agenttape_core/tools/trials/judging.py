"""Judge samples of a run: a change counts only where the model that recorded it does not show it, too.

There are three lanes: the recording, the *baseline* (the program's own model again, with the tools held still) and the
*candidate*. The baseline shows the noise of the model and of the replay itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import sqrt
from typing import Any, Literal

from agenttape_core.tools.report.trajectory import Trajectory

Lane = Literal["baseline", "candidate"]
Judgement = Literal["SAME", "CHANGED", "WORSE", "HOLD"]
"""The run is the same; it takes another path; its own assertions fail more often; it left the recorded world."""

FLOOR = 3
"""The fewest samples of each lane that are judged. One in which no model has answered is no evidence."""
_Z = 1.96
"""The quantile of the normal distribution for an interval of 95 %."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run in a lane.

    Args:
        lane: The lane.
        number: Its number in the lane, from 1.
        passed: Whether the run ended well: the assertions of the test held, the command ended with 0.
        drift: The calls that left the recorded world, as plain data.
        trajectory: The path of the run, and what it took.
        seconds: The time that its executed calls took.
        parts_at: The first call that differs from the recording's; empty if none does.
        answer: The last answer of a model.
        cassette: The derived cassette, as messages show it; empty if there is none.
        problem: The first line of what ended the run, if it did not end well.
        is_answered: Whether a model has answered: none has where the key is wrong, or the provider is down.
        differences: The lines of a unified diff in which a server answered otherwise than it was recorded: what another
            model writes is another answer, and no failure.
    """

    lane: Lane
    number: int
    passed: bool
    drift: tuple[dict[str, Any], ...] = ()
    trajectory: Trajectory = field(default_factory=Trajectory)
    seconds: float = 0.0
    parts_at: str = ""
    answer: str = ""
    cassette: str = ""
    problem: str = ""
    is_answered: bool = True
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """All samples of one test, or of one command.

    Args:
        name: The test, or the command.
        candidate: The model that is tried.
        recorded: The path of the recording.
        samples: The samples of both lanes.
        floor: The fewest samples of each lane that are judged.
    """

    name: str
    candidate: str
    recorded: Trajectory
    samples: tuple[Sample, ...]
    floor: int = FLOOR

    def lane(self, lane: Lane) -> list[Sample]:
        """Return the samples of a lane."""
        return [sample for sample in self.samples if sample.lane == lane]

    def share(self, lane: Lane) -> float:
        """Return the share of samples that passed; 0 where there are none."""
        return _passing(self.lane(lane))

    def interval(self, lane: Lane) -> tuple[float, float]:
        """Return the interval in which the share lies with a probability of 95 % (Wilson, 1927)."""
        return interval_of(self.share(lane), len(self.lane(lane)))

    def evidence(self, lane: Lane) -> list[Sample]:
        """Return the samples of a lane in which a model has answered."""
        return [sample for sample in self.lane(lane) if sample.is_answered]

    @property
    def parts_at(self) -> str:
        """The first call that differs in the candidate's runs, and in none of the baseline's; empty if none does."""
        known = {sample.parts_at for sample in self.evidence("baseline")}
        return next((one.parts_at for one in self.evidence("candidate") if one.parts_at not in {"", *known}), "")

    @property
    def judgement(self) -> Judgement | None:
        """The judgement; `None` where there is too little evidence for one."""
        baseline, candidate = self.evidence("baseline"), self.evidence("candidate")
        if min(len(baseline), len(candidate)) < self.floor:
            return None
        if _drifting(candidate) > _drifting(baseline):
            return "HOLD"
        if _passing(candidate) < _passing(baseline):
            return "WORSE"
        return "CHANGED" if self.parts_at else "SAME"


def interval_of(share: float, count: int) -> tuple[float, float]:
    """Return the interval in which a share lies with a probability of 95 % (Wilson, 1927).

    Args:
        share: The share of the samples, from 0 to 1.
        count: The number of samples.
    """
    if not count:
        return 0.0, 1.0
    middle = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return round(max(middle - half, 0.0), 3), round(min(middle + half, 1.0), 3)


def _passing(samples: Sequence[Sample]) -> float:
    return sum(sample.passed for sample in samples) / len(samples) if samples else 0.0


def _drifting(samples: Sequence[Sample]) -> float:
    return sum(bool(sample.drift) for sample in samples) / len(samples)


def parts_at(recorded: Trajectory, other: Trajectory) -> str:
    """Return where two runs part: the first call besides those of models that differs; empty if none does."""
    for before, now in zip_longest(_acts(recorded), _acts(other)):
        if before != now:
            return f"{before or 'the end'} → {now or 'the end'}"
    return ""


def _acts(trajectory: Trajectory) -> list[str]:
    return [call for call in trajectory.calls if not call.startswith(("chat ", "completion "))]
