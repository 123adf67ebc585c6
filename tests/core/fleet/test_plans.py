"""Plans of fleets: which recorded runs a candidate is tried on, shards that share the work, and verdicts on all."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.verdicts import verdict_of
from agenttape_core.fleet.items import Item, Recording, hash_of, plan_of, read_plan, shard_named
from agenttape_core.fleet.outcomes import Outcome, read_outcome
from agenttape_core.fleet.report import verdicts
from agenttape_core.fleet.sampling import sampled
from agenttape_core.schema import OWN

from . import desk
from .conftest import APP, Command

RULES = {"checks": {"rules.yaml": "checks: 1\n"}}
HUNDRED = [
    Item(f"runs/{number:03}.yaml", hash_of(number), "check", settings=hash_of(RULES), seconds=number % 7 * 1.5)
    for number in range(100)
]


def test_order_of_items() -> None:
    """A plan has the same bytes whatever the order of its items, and however often one is named; so it's read again."""
    plan = plan_of(HUNDRED, RULES)
    assert plan.text() == plan_of([*reversed(HUNDRED), HUNDRED[3]], RULES).text()
    assert read_plan(plan.text(), "items.jsonl") == plan
    assert json.loads(plan.text().splitlines()[0])["items"] == 100
    runs = runs_of(a=30, b=20)
    first = plan_of(sampled(runs, 10, COMMON, {}, {})).text()
    assert plan_of(sampled(runs[::-1], 10, COMMON, {}, {})).text() == first


def test_id_of_an_item() -> None:
    """Each field that decides an outcome changes the id, and neither the duration nor the weight does."""
    first = HUNDRED[0]
    others: list[dict[str, Any]] = [
        {"cassette": "b.yaml"},
        {"content": "b"},
        {"experiment": "replay"},
        {"program": "b:b"},
        {"revision": "b"},
        {"candidate": "b"},
        {"sample": 2},
        {"settings": "b"},
    ]
    assert len({first.id, *(replace(first, **each).id for each in others)}) == 9
    assert replace(first, seconds=9.0, weight=7.0).id == first.id


@pytest.mark.parametrize("total", [1, 2, 7, 50, 130])
def test_shards(total: int) -> None:
    """Each item is in one shard, and no two shards differ by more than the longest item."""
    plan = plan_of(HUNDRED, RULES)
    shards = [plan.shard(number, total) for number in range(1, total + 1)]
    assert sorted(item.id for shard in shards for item in shard) == sorted(item.id for item in HUNDRED)
    loads = [sum(item.seconds + 0.02 for item in shard) for shard in shards]
    assert max(loads) - min(loads) <= 9.1


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda _: "", "doesn't begin with the header"),
        (lambda _: "[]\n", "doesn't begin with the header"),
        (lambda text: text[: len(text) // 2].rpartition("\n")[0], "of 100"),
        (lambda text: text.replace("runs/001", "runs/801"), "were edited"),
        (lambda text: text.replace("checks: 1", "checks: 2"), "items.jsonl: .* settings of a plan aren't those"),
        (lambda text: text.replace('"seconds":1.5', '"seconds":9.5', 1), "the duration, the weight"),
        (lambda text: text.replace('"weight":1.0', '"weight":2.0', 1), "the duration, the weight"),
        (lambda text: text.replace('"agenttape":"', '"agenttape":"9', 1), "its header, or"),
        (lambda text: text.replace('"experiment":"check","f', '"experiment":"replay","f', 1), "its header, or"),
        (lambda text: text.replace('"format":1', '"format":9'), "format 9"),
        (lambda text: text.replace('"sample":0', '"simple":0'), "fields other than"),
    ],
)
def test_damaged_plans(damage: Callable[[str], str], problem: str) -> None:
    """A plan that was cut, edited or written by another version is refused, with the reason."""
    text = damage(plan_of(HUNDRED, RULES).text())
    with pytest.raises(ConfigurationError, match=problem):
        read_plan(text, "items.jsonl")


def test_a_plan_among_recordings(fleet: Command) -> None:
    """A plan is no damaged recording: the plan of the folder that it was written to has the recordings alone."""
    desk.record("runs", ["Oslo"])
    words = ("plan", "runs", "--experiment", "replay", "--app", APP, "--revision", "now")
    first = fleet(*words).out
    Path("runs/items.jsonl").write_text(first)
    assert fleet(*words).out == first


def test_empty_plans() -> None:
    """A plan without items, or of two experiments, is refused."""
    with pytest.raises(ConfigurationError, match="no recording"):
        plan_of([])
    with pytest.raises(ConfigurationError, match="of one experiment"):
        plan_of([Item("a.yaml", "a", "check"), Item("a.yaml", "a", "replay")])
    with pytest.raises(ConfigurationError, match="settings"):
        plan_of(HUNDRED, {})


@pytest.mark.parametrize(
    ("environment", "shard"),
    [
        ({"CI_NODE_INDEX": "7", "CI_NODE_TOTAL": "50"}, (7, 50)),
        ({"CIRCLE_NODE_INDEX": "6", "CIRCLE_NODE_TOTAL": "50"}, (7, 50)),
        ({"BUILDKITE_PARALLEL_JOB": "6", "BUILDKITE_PARALLEL_JOB_COUNT": "50"}, (7, 50)),
        ({"STRATEGY_JOB_INDEX": "6", "STRATEGY_JOB_TOTAL": "50"}, (7, 50)),
        ({"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETIONS": "50"}, (1, 50)),
    ],
)
def test_shards_of_engines(environment: dict[str, str], shard: tuple[int, int]) -> None:
    """The variables of an engine name the shard, whether it counts from 0 or from 1."""
    assert shard_named("env", environment) == shard


@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        *((text, {}, "no such shard") for text in ("9/8", "0/8", "8", "1/0", "-1/8", "a/b", "")),
        ("env", {"JOB_COMPLETION_INDEX": "3"}, "JOB_COMPLETIONS isn't set"),
        ("env", {}, "CI_NODE_INDEX and CI_NODE_TOTAL"),
        ("env", {"CIRCLE_NODE_INDEX": "8", "CIRCLE_NODE_TOTAL": "8"}, "expected 0 to 7"),
    ],
)
def test_shards_that_do_not_exist(text: str, environment: dict[str, str], said: str) -> None:
    """A shard that doesn't exist, or that no variables of an engine name, is refused with what is needed."""
    with pytest.raises(ConfigurationError, match=said):
        shard_named(text, environment)
    assert shard_named("8/8", {}) == (8, 8)


def test_outcomes_read_again() -> None:
    """An outcome that is read again is the same one, and one of another format is refused by name."""
    outcome = Outcome(HUNDRED[0].id, "a.yaml", "check", "broken", rules=("never",), dollars=0.5)
    assert read_outcome(outcome.to_bytes(), outcome.key, outcome.item) == outcome
    other = replace(outcome, versions={**outcome.versions, "format": "9"})
    with pytest.raises(ConfigurationError, match="format 9"):
        read_outcome(other.to_bytes(), other.key, other.item)
    for damaged in (b"", b"{}", b"[1]", outcome.to_bytes()):
        with pytest.raises(ValueError, match=r"outcome|Expecting"):
            read_outcome(damaged, "x.json", "another")


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
    """Each sample of the candidate has one of the program's own model with the same recording and number.

    Runs are sampled several times if there are fewer of them than pairs.
    """
    items = sampled(runs_of(a=5, b=3), 6, COMMON, {}, {})
    both = Counter((item.cassette, item.sample) for item in items)
    assert set(both.values()) == {2}
    assert len(both) == 6
    items = sampled(runs_of(a=2), 5, COMMON, {}, {})
    assert sorted(item.sample for item in items if item.candidate != OWN) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("pairs", "shares"), [(20, (16, 3, 1)), (None, (800, 150, 50)), (3, (1, 1, 1)), (1, (1, 0, 0))]
)
def test_classes_in_proportion(pairs: int | None, shares: tuple[int, ...]) -> None:
    """Each class gets a pair, and then in proportion to its runs; its pairs represent all of its runs."""
    items = sampled(runs_of(a=800, b=150, c=50), pairs, COMMON, {}, {})
    found = pairs_by_class(items)
    assert tuple(found[name] for name in "abc") == shares
    for name, count in {"a": 800, "b": 150, "c": 50}.items():
        mine = [item.weight for item in items if item.trajectory == name and item.candidate != OWN]
        assert sum(mine) == pytest.approx(count if mine else 0)


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
