"""Verdicts on paired samples: how often they are wrong, how soon they find a drop, and how they agree with each other.

The simulations are seeded, and look after each pair. The rates that they must keep follow from theory, so that another
seed gives the same answer: the rate of false alarms is at most 5 % at all times (Ville's inequality).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.experiments.verdicts import (
    ALPHA,
    MARGIN,
    Pairs,
    Verdict,
    difference_of,
    pairs_to_settle,
    share_of,
    verdict_of,
    verdicts_of,
)

TRIALS = 1000
verdict = cache(verdict_of)
COUNTS = st.builds(Pairs, st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))


def growing(baseline: float, candidate: float, seed: int) -> Iterator[Pairs]:
    """Yield the counts after each pair of samples of two models that pass with these probabilities."""
    chance = random.Random(seed)
    better = equal = worse = 0
    while True:
        before, now = chance.random() < baseline, chance.random() < candidate
        better, equal, worse = better + (now and not before), equal + (now == before), worse + (before and not now)
        yield Pairs(better, equal, worse)


@cache
def is_worse(better: int, worse: int) -> bool:
    """Return whether the verdict is WORSE, on which equal pairs have no effect."""
    return verdict_of(Pairs(better, 0, worse)) == "WORSE"


@cache
def rejected(count: int, share: float) -> float:
    """Return how often McNemar's exact test, one-sided at 5 %, rejects equality after some pairs that differ."""
    tails = accumulate(math.comb(count, each) / 2**count for each in range(count + 1))
    needed = count + 1 - sum(tail <= ALPHA for tail in tails)  # so many at least are worse
    return sum(
        math.comb(count, each) * share**each * (1 - share) ** (count - each) for each in range(needed, count + 1)
    )


@pytest.mark.parametrize("share", [0.8, 0.85, 0.9, 0.95])
def test_equal_models_are_seldom_called_worse(share: float) -> None:
    """Of trials of two equal models, looked at after each of 200 pairs, at most 5 % ever say WORSE."""
    looks = (islice(growing(share, share, seed), 200) for seed in range(TRIALS))
    false = sum(any(is_worse(int(pairs.better), int(pairs.worse)) for pairs in each) for each in looks)
    assert false / TRIALS <= 0.05


@pytest.mark.slow
def test_a_drop_is_found_in_half_the_samples_of_a_fixed_design() -> None:
    """A drop from .9 to .7 is found with 90 % power in half the pairs of a design for the least drop worth finding.

    A fixed design has to be planned for that least drop, from .9 to .8, as the real one isn't known before: 232 pairs
    with McNemar's exact test. Against a design that knew the drop to .7 beforehand (74 pairs), nothing could halve the
    samples: at 37 pairs, McNemar's test, for which 37 were planned, has less than 65 % power itself.
    """

    def power_of_mcnemar(baseline: float, candidate: float, pairs: int) -> float:
        """Return how often the test finds a drop in a fixed number of pairs."""
        worse, better = baseline * (1 - candidate), candidate * (1 - baseline)
        apart = worse + better
        return sum(
            rejected(count, worse / apart) * math.comb(pairs, count) * apart**count * (1 - apart) ** (pairs - count)
            for count in range(pairs + 1)
        )

    def fixed_design(baseline: float, candidate: float) -> int:
        """Return the fewest pairs with which McNemar's exact test finds a drop in 90 % of all trials."""
        return next(pairs for pairs in range(20, 400) if power_of_mcnemar(baseline, candidate, pairs) >= 0.9)

    def stopped(baseline: float, candidate: float, seed: int, most: int) -> tuple[int, Verdict]:
        """Return the number of pairs at which a trial stops, and its verdict."""
        for number, pairs in zip(range(1, most + 1), growing(baseline, candidate, seed), strict=False):
            if (told := verdict(pairs)) != "UNCLEAR":
                return number, told
        return most, "UNCLEAR"

    planned, known = fixed_design(0.9, 0.9 - MARGIN), fixed_design(0.9, 0.7)
    assert (planned, known) == (232, 74)
    assert power_of_mcnemar(0.9, 0.7, known // 2) < 0.65
    ended = [stopped(0.9, 0.7, seed, planned // 2) for seed in range(TRIALS)]
    assert sum(told == "WORSE" for _, told in ended) / TRIALS >= 0.9
    assert sum(number for number, _ in ended) / TRIALS < 0.8 * known  # on average, it's less than a design that knew


def test_a_family_has_few_false_alarms() -> None:
    """Of families of 20 equal models, stopped where each looks worst, at most 5 % contain a WORSE."""

    def _worse(pairs: Pairs) -> float:
        return pairs.worse - pairs.better

    false = 0
    for seed in range(100):
        worst = [
            max((pairs for _, pairs in zip(range(60), growing(0.9, 0.9, 1000 * seed + at), strict=False)), key=_worse)
            for at in range(20)
        ]
        false += "WORSE" in verdicts_of(worst)
    assert false / 100 <= 0.05


def test_a_family_of_many_that_are_worse_needs_no_more_than_one() -> None:
    """If all trials of a family are worse, each is found with the evidence that one alone needs; one of 20 isn't."""
    clear, equal = Pairs(0, 0, 6), Pairs(0, 6, 0)
    assert verdicts_of([clear]) == ["WORSE"]
    assert verdicts_of([clear] * 20) == ["WORSE"] * 20
    assert verdicts_of([clear] + [equal] * 19) == ["UNCLEAR"] * 20
    assert verdict_of(clear, family=20) == "UNCLEAR"


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        (Pairs(), "UNCLEAR"),
        (Pairs(0, 3, 0), "UNCLEAR"),  # three of three passes say nothing yet
        (Pairs(0, 2, 1), "UNCLEAR"),
        (Pairs(0, 0, 5), "UNCLEAR"),
        (Pairs(0, 0, 6), "WORSE"),
        (Pairs(0, 100, 6), "WORSE"),  # equal pairs say nothing on which is better
        (Pairs(6, 0, 0), "BETTER"),
        (Pairs(0, 37, 0), "UNCLEAR"),
        (Pairs(0, 38, 0), "SAME"),
        (Pairs(10, 300, 10), "SAME"),
        (Pairs(10, 30, 10), "UNCLEAR"),
        (Pairs(0, 2000, 8), "WORSE"),  # a small difference that is certain
    ],
)
def test_planted_verdicts(pairs: Pairs, wanted: Verdict) -> None:
    """Planted counts have the verdict that they must have."""
    assert verdict_of(pairs) == wanted


@given(COUNTS)
def test_verdicts_agree_with_their_interval(pairs: Pairs) -> None:
    """WORSE is an interval below 0, BETTER one above, SAME one within the margin, UNCLEAR none of these."""
    low, high = difference_of(pairs)
    told = verdict_of(pairs)
    assert -1 <= low <= high <= 1
    assert (told == "WORSE") == (high < 0)
    assert (told == "BETTER") == (low > 0)
    assert (told == "SAME") == (low > -MARGIN and high < MARGIN and low <= 0 <= high)


@given(COUNTS)
def test_equal_pairs_do_not_show_which_is_worse(pairs: Pairs) -> None:
    """Whether a verdict is WORSE depends on the pairs that differ alone, as the simulations rely on."""
    assert (verdict_of(pairs) == "WORSE") == is_worse(int(pairs.better), int(pairs.worse))


@given(COUNTS)
def test_verdicts_turn_with_the_lanes(pairs: Pairs) -> None:
    """With baseline and candidate exchanged, WORSE becomes BETTER, and nothing else changes."""
    turned: dict[Verdict, Verdict] = {"WORSE": "BETTER", "BETTER": "WORSE", "SAME": "SAME", "UNCLEAR": "UNCLEAR"}
    assert verdict_of(pairs.turned) == turned[verdict_of(pairs)]


@given(st.lists(COUNTS, min_size=1, max_size=3))
def test_the_pairs_that_settle_it_do_so(family: list[Pairs]) -> None:
    """So many pairs more at the same rates give a verdict, and one fewer doesn't; none are needed after a verdict."""

    def grown(pairs: Pairs, told: Verdict, more: int) -> Pairs:
        """Return the pairs of a trial that has no verdict yet, after some more at the same rates."""
        if told != "UNCLEAR" or not pairs.total:
            return pairs if pairs.total else Pairs(equal=more)
        return Pairs(*(each * (1 + more / pairs.total) for each in pairs))

    needed, now = pairs_to_settle(family), verdicts_of(family)

    def later(more: int) -> list[Verdict]:
        return verdicts_of([grown(*one, more) for one in zip(family, now, strict=True)])

    for place, more in enumerate(needed):
        assert (more == 0) == (now[place] != "UNCLEAR")
        if more != 0:
            assert more is None or later(more)[place] != "UNCLEAR"
            assert later(2000 if more is None else more - 1)[place] == "UNCLEAR"


def test_what_a_first_look_foretells() -> None:
    """After no pair or three equal ones, 38 in all would give SAME; a family of ten needs no more if all are equal."""
    assert pairs_to_settle([Pairs()]) == [38]
    assert pairs_to_settle([Pairs(0, 3, 0)]) == [35]
    assert pairs_to_settle([Pairs(0, 3, 0)] * 10) == [35] * 10
    assert pairs_to_settle([Pairs(0, 3, 0), *[Pairs(10, 10, 10)] * 9])[0] == 59


def test_bounds_of_shares() -> None:
    """Of nothing a share may be all, it narrows with samples, and one failure proves that not all pass."""
    assert share_of(0, 0) == (0.0, 1.0)
    low, high = share_of(8, 10)
    assert 0.3 < low < 0.8 < high < 1
    assert share_of(80, 100)[0] > low
    assert share_of(2, 3)[1] < 1
    assert share_of(3, 3)[1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_bounds_of_shares_hold_at_all_times(share: float) -> None:
    """Looked at after each of 100 samples, a bound is wrong in at most 5 % of all trials."""
    bound = cache(lambda count, of: share_of(count, of)[0])
    wrong = 0
    for seed in range(300):
        chance = random.Random(seed)
        seen = list(accumulate(chance.random() < share for _ in range(100)))
        wrong += any(bound(count, of) > share for of, count in enumerate(seen, 1))
    assert wrong / 300 <= 0.05
