"""Which recorded runs a candidate is tried on, what they represent, and the verdicts on all of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.verdicts import verdict_of
from agenttape_core.fleet.items import Item, Recording, plan_of
from agenttape_core.fleet.outcomes import Outcome
from agenttape_core.fleet.report import verdicts
from agenttape_core.fleet.sampling import sampled
from agenttape_core.schema import OWN

COMMON: dict[str, Any] = {"experiment": "model", "program": "desk:answer", "revision": "abc", "candidate": "p:m"}
Runs = list[Recording]
_OUTCOME = Outcome("", "", "model", "same")


def runs_of(**classes: int) -> Runs:
    """Return recorded runs of some classes."""
    return [
        Recording(f"{name}/{number}.yaml", f"{name}-{number}", 1.0, name)
        for name, count in classes.items()
        for number in range(count)
    ]


def tried(items: list[Item], **shares: tuple[float, float]) -> dict[str, Outcome]:
    """Return outcomes: in each class, the candidate and the program's own model pass so often."""
    draw, found = random.Random(1), {}
    for item in items:
        passed = draw.random() < shares[item.trajectory][item.candidate == OWN]
        found[item.id] = replace(_OUTCOME, item=item.id, candidate=item.candidate, passed=passed)
    return found


def by_id(items: list[Item]) -> dict[str, Item]:
    """Return items by their ids."""
    return {item.id: item for item in items}


def pairs_by_class(items: list[Item]) -> Counter[str]:
    """Return the number of pairs of each class."""
    return Counter(item.trajectory for item in items if item.candidate != OWN)


def test_pairs_of_both_models() -> None:
    """Each sample of the candidate has one of the program's own model with the same recording and number."""
    items = sampled(runs_of(a=5, b=3), 6, COMMON, {}, {})
    both = Counter((item.cassette, item.sample) for item in items)
    assert set(both.values()) == {2}
    assert len(both) == 6


@pytest.mark.parametrize(
    ("pairs", "shares"), [(20, (16, 3, 1)), (None, (800, 150, 50)), (3, (1, 1, 1)), (1, (1, 0, 0))]
)
def test_classes_in_proportion(pairs: int | None, shares: tuple[int, ...]) -> None:
    """Each class gets a pair, and then in proportion to its runs."""
    found = pairs_by_class(sampled(runs_of(a=800, b=150, c=50), pairs, COMMON, {}, {}))
    assert tuple(found[name] for name in "abc") == shares


def test_weights_are_recorded_frequencies() -> None:
    """The pairs of a class represent all of its runs."""
    items = sampled(runs_of(a=800, b=150, c=50), 21, COMMON, {}, {})
    for name, count in {"a": 800, "b": 150, "c": 50}.items():
        mine = [item.weight for item in items if item.trajectory == name and item.candidate != OWN]
        assert sum(mine) == pytest.approx(count)


def test_same_plan_in_any_order() -> None:
    """The order in which recordings are listed doesn't change which ones are drawn."""
    runs = runs_of(a=30, b=20)
    first = plan_of(sampled(runs, 10, COMMON, {}, {})).text()
    assert plan_of(sampled(runs[::-1], 10, COMMON, {}, {})).text() == first


def test_more_pairs_than_runs() -> None:
    """Runs are sampled several times if there are fewer of them than pairs."""
    items = sampled(runs_of(a=2), 5, COMMON, {}, {})
    assert sorted(item.sample for item in items if item.candidate != OWN) == [1, 1, 2, 2, 3]


@pytest.mark.slow
def test_a_second_round_goes_where_it_is_unsure() -> None:
    """A second round keeps the first one's samples, and draws more from the class that isn't clear yet."""
    runs = runs_of(a=500, b=500)
    first = sampled(runs, 60, COMMON, {}, {})
    outcomes = tried(first, a=(1.0, 1.0), b=(0.5, 0.6))
    both = sampled(runs, 40, COMMON, by_id(first), outcomes)
    assert set(by_id(first)) <= set(by_id(both))
    new = pairs_by_class([item for item in both if item.id not in by_id(first)])
    assert sum(new.values()) == 40
    assert new["b"] > new["a"] > 0
    assert sum(item.weight for item in both if item.candidate != OWN) == pytest.approx(1000)


def test_samples_of_another_trial_do_not_count() -> None:
    """Samples of another revision aren't taken over."""
    runs = runs_of(a=10)
    first = [replace(item, revision="older") for item in sampled(runs, 5, COMMON, {}, {})]
    assert len(sampled(runs, 5, COMMON, by_id(first), {})) == 10


def test_verdicts_over_all_and_by_class() -> None:
    """A candidate that fails in one class of three is WORSE there and over all, and the same in the others."""
    runs = runs_of(a=600, b=300, c=100)
    items = sampled(runs, 400, COMMON, {}, {})
    outcomes = tried(items, a=(1.0, 1.0), b=(0.3, 1.0), c=(1.0, 1.0))
    overall, *classes = verdicts(by_id(items), outcomes)
    assert (overall.candidate, overall.verdict) == ("p:m", "WORSE")
    assert overall.runs == pytest.approx(1000)
    assert {one.trajectory: one.verdict for one in classes} == {"a": "SAME", "b": "WORSE", "c": "UNCLEAR"}
    assert overall.difference[1] < 0


def test_a_rare_class_does_not_decide() -> None:
    """A class with few runs counts as few runs over all, however many samples it has."""
    runs = runs_of(common=990, rare=10)
    items = sampled(runs, 40, COMMON, {}, {})
    items = [
        *items,
        *(replace(one, sample=one.sample + n) for one in items if one.trajectory == "rare" for n in range(1, 40)),
    ]
    items = [replace(one, weight=10 / 40) if one.trajectory == "rare" else one for one in items]
    outcomes = tried(items, common=(1.0, 1.0), rare=(0.0, 1.0))
    overall, *classes = verdicts(by_id(items), outcomes)
    assert {one.trajectory: one.verdict for one in classes}["rare"] == "WORSE"
    assert overall.verdict in {"SAME", "UNCLEAR"}


@pytest.mark.slow
def test_equal_models_are_rarely_called_unequal() -> None:
    """With unequal weights, at most 5 % of trials of equal models end with a wrong verdict in each direction."""
    trials, draw = 100, random.Random(0)
    items = sampled(runs_of(a=900, b=80, c=20), 60, COMMON, {}, {})
    items = [replace(one, weight=one.weight * (5 if one.trajectory == "a" else 1)) for one in items]
    told: Counter[str] = Counter()
    for _ in range(trials):
        outcomes = {
            one.id: replace(_OUTCOME, item=one.id, candidate=one.candidate, passed=draw.random() < 0.5) for one in items
        }
        told[verdicts(by_id(items), outcomes)[0].verdict] += 1
    assert max(told["WORSE"], told["BETTER"]) <= trials * 0.05


def test_samples_that_are_no_evidence() -> None:
    """A pair counts only if both samples are evidence; with none, nothing is settled."""
    items = sampled(runs_of(a=3), 3, COMMON, {}, {})
    outcomes = {one.id: replace(_OUTCOME, item=one.id, passed=True if one.candidate == OWN else None) for one in items}
    (overall,) = verdicts(by_id(items), outcomes)
    assert (overall.pairs.total, overall.verdict, overall.more) == (0, verdict_of(overall.pairs), None)


def test_nothing_to_sample() -> None:
    """Damaged recordings can't be tried, and a plan of them alone is refused."""
    with pytest.raises(ConfigurationError, match="no recording to plan with can be read"):
        sampled([Recording("a.yaml", "x", 0.0, "")], 5, COMMON, {}, {})
