"""Causes are found by experiment: of a factor, of several together, of none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from agenttape_core import Variation
from agenttape_core.experiments import drive
from agenttape_core.experiments.verify import FACTORS, Environment, Factor, causes_of
from agenttape_core.experiments.verify.comparison import Place
from agenttape_core.experiments.verify.environment import BY_FACTOR, BY_NOISE, RARE, TOGETHER, UNFROZEN, Cause, Noise

pytestmark = pytest.mark.process

FIRST = Environment(0, "UTC", "C.utf8", "run-1", 0.005, 80)
OTHER = Environment(1, "Asia/Kathmandu", "C", "run-2", 1e-6, 200)


def place(what: str, noise: Noise = "") -> Place:
    """Return a place."""
    return Place(what, "a", "b", noise)


class Replays:
    """A program, as a function of its environment."""

    def __init__(self, function: Callable[[Environment], object]) -> None:
        self._function = function

    def run(self, variation: Variation) -> Any:
        """Return what it gives in the environment of a replay."""
        return self._function(Environment(**variation.environment))


def causes(
    found: Sequence[Place], other: Environment, differing: Callable[[Environment], list[Place]]
) -> dict[str, Cause]:
    """Return the causes of differences, as experiments find them."""
    answers: dict[str, Cause] = drive(Replays(differing), causes_of(found, FIRST, other, lambda places: places))
    return answers


def cause_of(program: Callable[[Environment], object], noise: Noise = "") -> Cause:
    """Return the cause of a program producing something else in the other environment."""
    first = program(FIRST)
    assert program(OTHER) != first

    def differing(around: Environment) -> list[Place]:
        return [place("x", noise)] if program(around) != first else []

    return causes([place("x", noise)], OTHER, differing)["x"]


@pytest.mark.parametrize("factor", FACTORS)
def test_a_single_factor(factor: Factor) -> None:
    """The factor that alone makes the difference is the cause."""
    assert cause_of(lambda around: getattr(around, factor)) is BY_FACTOR[factor]


def test_two_factors_together() -> None:
    """A difference that needs two factors is not blamed on one of them."""
    assert cause_of(lambda around: around.hash_seed and around.time_zone != "UTC") is TOGETHER


@pytest.mark.parametrize(("noise", "cause"), [("", UNFROZEN), ("address", BY_NOISE["address"]), ("id", BY_NOISE["id"])])
def test_nothing_varied(noise: Noise, cause: Cause) -> None:
    """What differs in the same environment is no factor's fault; addresses and ids are called by their names."""
    numbers = count()
    assert cause_of(lambda _: next(numbers), noise) is cause


def scripted(answers: str) -> Callable[[Environment], str]:
    """Return a program whose replays give these answers in turn."""
    replays: Iterator[str] = iter(answers)
    return lambda _: next(replays)


def test_what_comes_and_goes_is_no_factor() -> None:
    """A factor whose effect cannot be repeated is not blamed."""
    # The first and the other; nothing varied; the hash seed, by chance; both again; the other environment again.
    assert cause_of(scripted("ab" + "a" + "b" + "aa" + "a")) is RARE


def test_what_differs_by_itself_later_is_no_factor() -> None:
    """A factor is not blamed for what turns out to differ without it."""
    assert cause_of(scripted("ab" + "a" + "b" + "cb")) is UNFROZEN


def test_each_place_has_its_own_cause() -> None:
    """Two differences of one replay are told apart."""

    def differing(around: Environment) -> list[Place]:
        return [
            *([place("set")] if around.hash_seed else []),
            *([place("zone")] if around.time_zone != "UTC" else []),
            place("random"),
        ]

    found = causes([place("set"), place("zone"), place("random")], OTHER, differing)
    assert found == {"set": BY_FACTOR["hash_seed"], "zone": BY_FACTOR["time_zone"], "random": UNFROZEN}


def test_a_factor_that_was_not_varied_is_not_tried() -> None:
    """Experiments are made only with what differs between the two replays."""
    other = FIRST._replace(time_zone="Asia/Kathmandu")
    tried: list[Environment] = []

    def differing(around: Environment) -> list[Place]:
        tried.append(around)
        return [place("x")] if around == other else []

    assert causes([place("x")], other, differing) == {"x": BY_FACTOR["time_zone"]}
    assert set(tried) == {FIRST, other}
