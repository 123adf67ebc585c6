"""What the samples of a trial may cost together."""

from __future__ import annotations

from threading import Barrier

import pytest

from agenttape_core.experiments.strategies.sampling import Case, Most, Taken, take_samples
from agenttape_core.tools.report import Trajectory


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_samples_in_parallel_share_what_is_left(jobs: int) -> None:
    """Samples that are taken at the same time may spend no more than the limit between them."""
    together, limits = Barrier(jobs), []

    def take(_group: str, _number: int, limit: float | None) -> Taken:
        limits.append(limit or 0.0)
        together.wait(20)
        return Taken(passed=True, spent=0.25 / jobs)

    cases = [Case(f"case {number}", "other:model", Trajectory(), take) for number in range(jobs)]
    take_samples(cases, Most(samples=1, baseline=0, family=jobs, max_usd=1.0, jobs=jobs), [])
    assert limits == pytest.approx([1.0 / jobs] * jobs)
    assert sum(limits) <= 1.0
