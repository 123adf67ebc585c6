"""Plans of fleets: the same bytes for the same input, and shards that share the work."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.fleet.items import Item, hash_of, plan_of, read_plan, shard_named
from agenttape_core.fleet.outcomes import Outcome, read_outcome

from . import desk
from .conftest import APP, Command

RULES = {"checks": {"rules.yaml": "checks: 1\n"}}
HUNDRED = [
    Item(f"runs/{number:03}.yaml", hash_of(number), "check", settings=hash_of(RULES), seconds=number % 7 * 1.5)
    for number in range(100)
]


def test_order_of_items() -> None:
    """A plan has the same bytes whatever the order of its items, and however often one is named."""
    assert plan_of(HUNDRED, RULES).text() == plan_of([*reversed(HUNDRED), HUNDRED[3]], RULES).text()


def test_read_again() -> None:
    """A plan that is read again is the same one, with its settings."""
    plan = plan_of(HUNDRED, RULES)
    assert read_plan(plan.text(), "items.jsonl") == plan
    assert json.loads(plan.text().splitlines()[0])["items"] == 100


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


@pytest.mark.parametrize("text", ["9/8", "0/8", "8", "1/0", "-1/8", "a/b", ""])
def test_shards_that_do_not_exist(text: str) -> None:
    """A shard that doesn't exist is refused with the ones that do."""
    with pytest.raises(ConfigurationError, match="no such shard"):
        shard_named(text, {})
    assert shard_named("8/8", {}) == (8, 8)


def test_variables_that_are_missing() -> None:
    """Without the variables of an engine, or with half of them, the error names those that are needed."""
    with pytest.raises(ConfigurationError, match="JOB_COMPLETIONS isn't set"):
        shard_named("env", {"JOB_COMPLETION_INDEX": "3"})
    with pytest.raises(ConfigurationError, match="CI_NODE_INDEX and CI_NODE_TOTAL"):
        shard_named("env", {})
    with pytest.raises(ConfigurationError, match="expected 0 to 7"):
        shard_named("env", {"CIRCLE_NODE_INDEX": "8", "CIRCLE_NODE_TOTAL": "8"})


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
