"""Find why two replays differ by experiment: replay again with a single factor varied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from agenttape_core.experiments.verify.cause import BY_FACTOR, BY_NOISE, RARE, TOGETHER, UNFROZEN, Cause
from agenttape_core.experiments.verify.comparison import Place
from agenttape_core.experiments.verify.environment import ALL_FACTORS, Factor, Surroundings

Differing = Callable[[Surroundings], Collection[Place]]
"""Replays in some surroundings, and returns where that differs from the first replay."""


def causes_of(
    found: Iterable[Place], first: Surroundings, other: Surroundings, differing: Differing
) -> dict[str, Cause]:
    """Return the cause of each difference between two replays, by its place.

    What differs without anything varied is not blamed on a factor, and a factor is blamed only if what it does can be
    repeated.

    Args:
        found: Where they differ.
        first: The surroundings of the first replay.
        other: Those of the other.
        differing: Makes an experiment.
    """
    found = list(found)
    flaky = _whats(differing(first))
    blamed: dict[str, tuple[Factor, Surroundings]] = {}
    for factor, varied in _tries(first, other):
        rest = _whats(found) - flaky - blamed.keys()
        made = _whats(differing(varied)) if rest else set()
        blamed.update(dict.fromkeys(rest & made, (factor, varied)))
    if blamed:
        flaky |= _whats(differing(first))
    repeated = {varied: _whats(differing(varied)) for _, varied in dict.fromkeys(blamed.values())}
    sure = {what: factor for what, (factor, varied) in blamed.items() if what in repeated[varied] - flaky}
    rest = _whats(found) - flaky - sure.keys()
    together = _whats(differing(other)) if rest else set()
    return {place.what: _cause(place, sure, flaky, together) for place in found}


def _tries(first: Surroundings, other: Surroundings) -> Iterator[tuple[Factor, Surroundings]]:
    """Yield the surroundings to try, each with the factor that is varied.

    All of them move the memory a little, so that is the first suspect. It is tried twice, as a few objects lie in the
    same order by chance.
    """
    if first.memory != other.memory:
        yield "memory", first._replace(memory=other.memory)
        yield "memory", first._replace(memory=other.memory + 1000)
    for factor in ALL_FACTORS:
        if factor != "memory" and getattr(first, factor) != getattr(other, factor):
            yield factor, first._replace(**{factor: getattr(other, factor)})


def _cause(place: Place, sure: Mapping[str, Factor], flaky: set[str], together: set[str]) -> Cause:
    if place.noise == "address" and (place.what in sure or place.what in flaky):
        return BY_NOISE["address"]
    if place.what in sure:
        return BY_FACTOR[sure[place.what]]
    if place.what in flaky:
        return BY_NOISE.get(place.noise, UNFROZEN)
    return TOGETHER if place.what in together else RARE


def _whats(places: Iterable[Place]) -> set[str]:
    return {place.what for place in places}
