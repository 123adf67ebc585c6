"""Take samples of a candidate in turn with the program's own model, in any number of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from agenttape_core.experiments.strategies.trials.judging import Lane, Sample, Trial
from agenttape_core.schema import OWN
from agenttape_core.tools.report.trajectory import Trajectory

Take = Callable[[Lane, str, int], Sample]
"""Takes a sample: gets the lane, the model and the number in the lane."""


class Case:
    """A recording on which a candidate is tried.

    Args:
        name: Its name in the table.
        candidate: The model.
        recorded: The path of the recording.
        take: Takes a sample.
        known: Samples that were taken before, by lane and number.
    """

    def __init__(
        self,
        name: str,
        candidate: str,
        recorded: Trajectory,
        take: Take,
        known: Mapping[tuple[Lane, int], Sample] | None = None,
    ) -> None:
        self.name = name
        self._candidate = candidate
        self._recorded = recorded
        self._take = take
        self._known = known or {}
        self._samples: dict[tuple[int, Lane], Sample] = {}

    @property
    def trial(self) -> Trial:
        """The trial so far."""
        return Trial(self.name, self._candidate, self._recorded, tuple(one for _, one in sorted(self._samples.items())))

    def add(self, lane: Lane, number: int) -> None:
        """Take a sample, unless it's known."""
        model = OWN if lane == "baseline" else self._candidate
        self._samples[number, lane] = self._known.get((lane, number)) or self._take(lane, model, number)


def take_samples(
    cases: Sequence[Case],
    *,
    samples: int,
    baseline: int,
    family: int,
    jobs: int = 1,
    keep: Callable[[Sequence[Trial]], object] = len,
) -> list[Trial]:
    """Take samples of each case until there's a verdict on it, or until the last one that is wanted.

    Each case gets its first pair of samples before any gets its second one.

    Args:
        cases: The cases.
        samples: The most samples of the candidate in a case.
        baseline: The most samples of the program's own model in a case.
        family: The number of trials that are judged together.
        jobs: The number of pairs that are taken in parallel.
        keep: Called with the trials so far after each sample.
    """
    lock, is_over = Lock(), False

    def take_pair(case: Case, number: int) -> None:
        lanes: tuple[tuple[Lane, int], ...] = (("baseline", baseline), ("candidate", samples))
        for lane, most in lanes:
            with lock:
                if is_over or (lane == lanes[0][0] and case.trial.is_settled(family)):
                    return
            if number <= most:
                case.add(lane, number)
                with lock:
                    keep([one.trial for one in cases])

    pairs = [(case, number) for number in range(1, max(samples, baseline) + 1) for case in cases]
    if jobs == 1:
        for case, number in pairs:
            take_pair(case, number)
    else:
        with ThreadPoolExecutor(jobs) as pool:
            try:
                for _ in pool.map(lambda pair: take_pair(*pair), pairs):
                    pass
            except BaseException:
                is_over = True
                pool.shutdown(cancel_futures=True)
                raise
    return [case.trial for case in cases]
