"""The verdicts on another model over a fleet: for each class of runs with the same calls, and for all runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from agenttape_core.experiments.verdicts import (
    Pairs,
    Verdict,
    difference_of,
    pairs_to_settle,
    verdict_of,
    verdicts_of,
)
from agenttape_core.fleet.items import Item
from agenttape_core.fleet.outcomes import Outcome
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import OWN


class ClassVerdict(NamedTuple):
    """The verdict on a candidate for a class of runs, or for all of them."""

    trajectory: str  # the hash of the recorded calls of the class; empty for all runs
    runs: float  # the number of recorded runs that the samples represent
    candidate: str  # the model that was tried
    pairs: Pairs
    verdict: Verdict
    difference: tuple[float, float]  # the bounds of the share by which the candidate passes more often
    more: int | None = None
    """The pairs that would settle it if they are like those before; `None` for a class, and for more than 2,000."""


def verdicts(items: Mapping[str, Item], outcomes: Mapping[str, Outcome]) -> list[ClassVerdict]:
    """Return the verdict on all recorded runs of each candidate, followed by those on the classes.

    Over all runs, a pair counts in proportion to the runs that it represents, and the heaviest counts as one. That
    keeps the verdict valid: the expectation of a power of a bet's gain is at most the power of its expectation
    (Jensen), and the weighted geometric mean of the classes' expectations is at most their arithmetic mean. Each round
    of samples represents all runs, so rounds multiply.

    Args:
        items: The items of a plan, by id.
        outcomes: The outcomes, by the ids of the items.
    """
    found = []
    for candidate in sorted({one.candidate for one in items.values()} - {"", OWN}):
        several = [one for one in items.values() if one.candidate in {OWN, candidate}]
        pairs = _pairs(several, outcomes)
        heaviest = max((weight for _, weight, _ in pairs), default=1.0)
        overall = _sum(Pairs(*(each * weight / heaviest for each in pair)) for _, weight, pair in pairs)
        runs = math.fsum(one.weight for one in several if one.candidate == candidate)
        (more,) = pairs_to_settle([overall])
        judged = ClassVerdict(
            "", runs, candidate, overall, verdict_of(overall), difference_of(overall), more if pairs else None
        )
        found += [judged, *of_classes(several, outcomes)]
    return found


def of_classes(items: Collection[Item], outcomes: Mapping[str, Outcome]) -> list[ClassVerdict]:
    """Return the verdict on each class of which there are pairs, judged together. There is one candidate."""
    pairs: dict[str, list[Pairs]] = {}
    for name, _, pair in _pairs(items, outcomes):
        pairs.setdefault(name, []).append(pair)
    weights: dict[str, list[float]] = {}
    for item in items:
        if item.candidate != OWN:
            weights.setdefault(item.trajectory, []).append(item.weight)
    runs = {name: math.fsum(several) for name, several in weights.items()}
    candidate = next((item.candidate for item in items if item.candidate != OWN), "")
    names = sorted(pairs, key=lambda name: (-runs[name], name))
    family = [_sum(pairs[name]) for name in names]
    return [
        ClassVerdict(name, runs[name], candidate, each, verdict, difference_of(each))
        for name, each, verdict in zip(names, family, verdicts_of(family), strict=True)
    ]


def _pairs(items: Iterable[Item], outcomes: Mapping[str, Outcome]) -> list[tuple[str, float, Pairs]]:
    """Return the pairs of samples that both count, each with its class and its weight."""
    groups: dict[tuple[str, int], dict[bool, Item]] = {}
    for item in items:
        groups.setdefault((item.cassette, item.sample), {})[item.candidate == OWN] = item
    found = []
    for group in groups.values():
        ended = [outcomes.get(group[own].id) if own in group else None for own in (False, True)]
        tried, own = (one.passed if one is not None else None for one in ended)
        if tried is not None and own is not None:
            better, worse = tried and not own, own and not tried
            found.append((group[False].trajectory, group[False].weight, Pairs(better, tried == own, worse)))
    return found


def _sum(pairs: Iterable[Pairs]) -> Pairs:
    return Pairs(*(math.fsum(each) for each in zip(*pairs, strict=True)))
