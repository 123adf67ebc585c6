"""Where two replays differ, named by its place, and the cause, which is found by experiment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import Variation
from agenttape_core.experiments import drive
from agenttape_core.experiments.verify import FACTORS, Environment, Factor, causes_of
from agenttape_core.experiments.verify.comparison import Output, Place, places
from agenttape_core.experiments.verify.environment import BY_FACTOR, BY_NOISE, RARE, TOGETHER, UNFROZEN, Cause, Noise
from agenttape_core.redaction import Redactor, new_key

REDACTOR = Redactor(new_key())
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc$"), inner, max_size=3),
    max_leaves=8,
)


def produced(**parts: Any) -> Output:
    """Return what a replay produced: nothing but what is named."""
    return Output(**{"outcome": "returned", "failed": False, "stdout": "", "stderr": "", "files": {}, **parts})


def whats(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the names of the places where two replays differ."""
    return [place.what for place in places(produced(**first), produced(**other), REDACTOR)]


@given(PLAIN, PLAIN)
def test_every_difference_of_values_is_found(first: Any, other: Any) -> None:
    """Two return values differ in some place exactly if their JSON texts do, the order of keys included."""
    found = whats({"value": first}, {"value": other})
    assert bool(found) == (json.dumps(first) != json.dumps(other))
    assert len(set(found)) == len(found)


@given(st.text(), st.text())
def test_every_difference_of_texts_is_found(first: str, other: str) -> None:
    """Two outputs differ in exactly one line exactly if they are not equal."""
    assert len(whats({"stdout": first}, {"stdout": other})) == (first != other)


@pytest.mark.parametrize(
    ("first", "other", "what"),
    [
        ({"value": {"items": [1, 2]}}, {"value": {"items": [1, 3]}}, "return value at $.items[1]"),
        ({"value": {"$tuple": [{"a": 1}]}}, {"value": {"$tuple": [{"a": True}]}}, "return value at $[0].a"),
        ({"value": [1]}, {"value": [1.0]}, "return value at $[0]"),
        ({"value": {"a": 1, "b": 2}}, {"value": {"b": 2, "a": 1}}, "order of keys in the return value at $"),
        ({"stdout": "a\nb\n"}, {"stdout": "a\nc\n"}, "stdout, line 2"),
        ({"stderr": "a\n"}, {"stderr": "a\r\n"}, "stderr, line 1"),
        ({"stdout": "\udcff"}, {"stdout": "\udcfe"}, "stdout, line 1"),
        ({"outcome": "returned"}, {"outcome": "raised ValueError: no"}, "outcome"),
        ({"calls": {"a/b": ["tool x", "1"]}}, {"calls": {"a/b": ["tool y", "1"]}}, "call at a/b"),
        ({"calls": {"a/b": ["tool x", "1"]}}, {"calls": {"a/b": ["tool x", "2"]}}, "call at a/b"),
        ({"calls": {}}, {"calls": {"a": ["tool x", "1"]}}, "call at a"),
        ({"order": [["a", "b"]]}, {"order": [["b", "a"]]}, "order of calls"),
        ({"files": {"a": "1\n2"}}, {"files": {"a": "1\n3"}}, "file a, line 2"),
        ({"files": {"a": ""}}, {"files": {"b": ""}}, "file a"),
        ({"sessions": {"unused of c.yaml": ""}}, {"sessions": {"unused of c.yaml": "1 x"}}, "unused of c.yaml"),
    ],
)
def test_places_are_named(first: dict[str, Any], other: dict[str, Any], what: str) -> None:
    """A difference is named by where it is."""
    assert whats(first, other)[0] == what


def test_the_first_comes_first() -> None:
    """What a run comes to first is named first: a call before the value that was made of it, and before the output."""
    first = {"calls": {"a": ["x", "1"]}, "value": 1, "stdout": "1"}
    other = {"calls": {"a": ["y", "1"]}, "value": 2, "stdout": "2"}
    assert whats(first, other) == ["call at a", "return value at $", "stdout, line 1"]


def test_a_miss_is_shown_in_full() -> None:
    """Beside a replay that returned, the whole explanation of the one that raised stands, line by line."""
    raised = "raised CassetteMissError: no recording\n  differs   q\n  to fix    record it anew"
    (place,) = places(produced(), produced(outcome=raised), REDACTOR)
    assert (place.first, place.other) == ("returned", raised)


def test_a_long_list_is_cut() -> None:
    """A list that differs in a thousand items does not make a report of a thousand places."""
    assert len(whats({"value": [0] * 1000}, {"value": [1] * 1000})) == 20


def test_a_difference_that_is_redacted() -> None:
    """Texts that differ only where redaction hides it are still different."""
    same = Redactor(new_key())
    masked = same.text("token: " + "-".join(["sk", "proj", "Zq8" * 16]))
    assert len(places(produced(value=-0.0), produced(value=0.0), same)) == 1
    assert "sk-proj" not in masked


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


def test_earlier_replays_in_the_process() -> None:
    """What differs in a replay before the one that counts is a difference, and that it came before is the cause."""
    found = places(produced(value=1), produced(value=1, earlier=[produced(value=2)]), REDACTOR)
    other = FIRST._replace(earlier_replays=2)
    blamed = causes(found, other, lambda around: found if around.earlier_replays else [])
    assert blamed == {"return value at $": BY_FACTOR["earlier_replays"]}


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
