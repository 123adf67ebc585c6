"""Find why two replays differ by experiment: replay again with a single factor varied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from agenttape_core.tools.verify.cause import BY_FACTOR, BY_NOISE, RARE, TOGETHER, UNFROZEN, Cause
from agenttape_core.tools.verify.comparison import Place
from agenttape_core.tools.verify.environment import FACTORS, Factor, Surroundings

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
    blamed: dict[str, Factor] = {}
    for factor in FACTORS:
        rest = _whats(found) - flaky - blamed.keys()
        if rest and getattr(first, factor) != getattr(other, factor):
            made = _whats(differing(_varied(first, other, factor)))
            blamed.update(dict.fromkeys(rest & made, factor))
    if blamed:
        flaky |= _whats(differing(first))
    repeated = {factor: _whats(differing(_varied(first, other, factor))) for factor in dict.fromkeys(blamed.values())}
    sure = {what: factor for what, factor in blamed.items() if what in repeated[factor] - flaky}
    rest = _whats(found) - flaky - sure.keys()
    together = _whats(differing(other)) if rest else set()
    return {place.what: _cause(place, sure, flaky, together) for place in found}


def _varied(first: Surroundings, other: Surroundings, factor: Factor) -> Surroundings:
    return first._replace(**{factor: getattr(other, factor)})


def _cause(place: Place, sure: Mapping[str, Factor], flaky: set[str], together: set[str]) -> Cause:
    if place.what in sure:
        return BY_FACTOR[sure[place.what]]
    if place.what in flaky:
        return BY_NOISE.get(place.noise, UNFROZEN)
    return TOGETHER if place.what in together else RARE


def _whats(places: Iterable[Place]) -> set[str]:
    return {place.what for place in places}
