"""Verdicts on paired samples that stay valid however often you look at them: pure functions over counts.

A *pair* is a sample of the baseline and the sample of the same number of the candidate. It's better if only the
candidate passed, worse if only the baseline did, and equal otherwise.

Each hypothesis is tested by betting against it: a gambler starts with 1 and bets on every pair, at odds that give no
expected gain if the hypothesis is true. So the capital reaches 20 with a probability of at most 5 %, at whatever moment
you look (Ville, 1939), and a trial may stop at that moment, or continue later.

The bets are a grid of constant fractions, whose capitals are averaged, as in GridKelly of Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024), 1-27.
The capital depends on the counts alone, not on the order of the pairs. The means that are not refuted make a confidence
sequence (Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences",
Annals of Statistics 49 (2021), 1055-1080).

Several trials of one run are judged together by e-BH of Wang and Ramdas, "False discovery rate control with e-values",
Journal of the Royal Statistical Society B 84 (2022), 822-852, which needs no independence: of the trials that are
called WORSE, at most 5 % are expected to be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal

from agenttape_core.named_tuples import NamedTuple

Verdict = Literal["WORSE", "BETTER", "SAME", "UNCLEAR"]
"""The candidate passes less often, more often, as often within `MARGIN`; or the samples do not tell."""

ALPHA = 0.05  # the probability with which a verdict is wrong, at most
MARGIN = 0.1
"""The difference of the shares that pass below which two models are the same: the smallest drop worth finding."""
_BETS = (0.25, 0.5, 0.75, 1.0)
"""The fractions of the capital that are bet. With the last, a certain difference is found in the fewest pairs."""
_BETS_ON_A_SHARE = (1 / 64, 1 / 16, *_BETS)  # the same, with small ones, for a share that may be close to 0 or 1
_MOST = 2000  # the most pairs that are foretold
_STEP = 1e-6  # the distance from a bound at which its search ends

_Counts = Sequence[tuple[float, float]]  # values from 0 to 1, and how often each came


class Pairs(NamedTuple):
    """The counts of pairs."""

    better: float = 0  # the pairs in which only the candidate passed
    equal: float = 0  # those in which both or none passed
    worse: float = 0  # those in which only the baseline passed

    @property
    def total(self) -> float:
        """The number of all pairs."""
        return self.better + self.equal + self.worse

    @property
    def turned(self) -> Pairs:
        """The pairs with candidate and baseline exchanged."""
        return Pairs(self.worse, self.equal, self.better)


def verdicts_of(family: Sequence[Pairs], *, alpha: float = ALPHA, margin: float = MARGIN) -> list[Verdict]:
    """Return the verdict on each of several trials that are judged together."""
    found: list[Verdict] = ["UNCLEAR"] * len(family)
    kinds: tuple[Verdict, ...] = ("SAME", "BETTER", "WORSE")
    for kind in kinds:  # a small difference that is certain is one, though it lies within the margin
        for place in _discoveries([_evidence(kind, pairs, margin) for pairs in family], alpha):
            found[place] = kind
    return found


def verdict_of(pairs: Pairs, *, family: int = 1, alpha: float = ALPHA, margin: float = MARGIN) -> Verdict:
    """Return the verdict on one trial, which holds whatever the others of its family come to."""
    return verdicts_of([pairs], alpha=alpha / max(family, 1), margin=margin)[0]


def pairs_to_settle(family: Sequence[Pairs], *, alpha: float = ALPHA, margin: float = MARGIN) -> list[int | None]:
    """Return how many more pairs, at the same rates, each trial needs for a verdict; `None` if over 2,000."""
    settled = [told != "UNCLEAR" for told in verdicts_of(family, alpha=alpha, margin=margin)]

    @cache
    def after(more: int) -> list[bool]:
        grown = [pairs if done else _grown(pairs, more) for pairs, done in zip(family, settled, strict=True)]
        return [told != "UNCLEAR" for told in verdicts_of(grown, alpha=alpha, margin=margin)]

    def needed(place: int) -> int | None:
        low, high = 0, _MOST
        while low < high:  # logarithms of capitals are convex in the number of pairs, and begin at 0: they cross once
            middle = (low + high) // 2
            low, high = (low, middle) if after(middle)[place] else (middle + 1, high)
        return low if after(low)[place] else None

    return [0 if done else needed(place) for place, done in enumerate(settled)]


def _grown(pairs: Pairs, more: int) -> Pairs:
    """Return pairs with some more that come at the same rates."""
    if not pairs.total:
        return Pairs(equal=more)
    return Pairs(*(each * (1 + more / pairs.total) for each in pairs))


def difference_of(pairs: Pairs, *, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the bounds of the share by which the candidate passes more often, from -1 to 1.

    Each bound is wrong with a probability of at most `alpha`, at whatever moment you look. Where one trial is judged
    alone, WORSE is an interval below 0, and BETTER one above.
    """
    return 2 * _lower(_values(pairs), alpha) - 1, 1 - 2 * _lower(_values(pairs.turned), alpha)


def share_of(count: int, of: int, *, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the bounds of the probability of something that was seen some times of many.

    Each bound is wrong with a probability of at most `alpha`, at whatever moment you look.
    """
    low, high = ((_lower([(1, here), (0, of - here)], alpha, _BETS_ON_A_SHARE)) for here in (count, of - count))
    return low, min(1 - high, 1.0 if count == of else math.nextafter(1.0, 0.0))  # not all, if one was not


def _evidence(kind: Verdict, pairs: Pairs, margin: float) -> float:
    """Return the logarithm of the capital won against the opposite of a verdict."""
    if kind == "SAME":  # both must be refuted: that it is lower by the margin, and that it is higher
        level = (1 - margin) / 2
        return min(_capital(_values(pairs), level), _capital(_values(pairs.turned), level))
    return _capital(_values(pairs if kind == "BETTER" else pairs.turned), 0.5)


def _values(pairs: Pairs) -> _Counts:
    return ((1, pairs.better), (0.5, pairs.equal), (0, pairs.worse))


def _capital(counts: _Counts, mean: float, bets: Sequence[float] = _BETS) -> float:
    """Return the logarithm of the capital that is won by bets that the mean of values is above a number."""
    logs = [sum(count * _log(1 - bet + bet * value / mean) for value, count in counts if count) for bet in bets]
    top = max(logs)
    return top + math.log(sum(math.exp(each - top) for each in logs) / len(logs)) if top > -math.inf else top


def _log(factor: float) -> float:
    return math.log(factor) if factor > 0 else -math.inf


def _lower(counts: _Counts, alpha: float, bets: Sequence[float] = _BETS) -> float:
    """Return the largest mean that is refuted, so that all means above it are possible."""
    if not any(count for value, count in counts if value):
        return 0.0
    low, high = 0.0, 1.0
    while high - low > _STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if _capital(counts, middle, bets) >= -math.log(alpha) else (low, middle)
    return low


def _discoveries(evidence: Sequence[float], alpha: float) -> list[int]:
    """Return the places of the hypotheses that e-BH refutes."""
    order = sorted(range(len(evidence)), key=lambda place: -evidence[place])
    most = max(
        (rank for rank, place in enumerate(order, 1) if evidence[place] >= math.log(len(order) / (rank * alpha))),
        default=0,
    )
    return order[:most]
