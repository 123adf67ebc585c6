"""Delta debugging, and what it is done to: units in a row, and the parts of recorded outcomes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttape_core.experiments.strategies.outcome_trees import (
    JSON,
    at_depth,
    emptied,
    hollow,
    outcome_with,
    smaller_tree,
    texts,
    tree_of,
    without,
)
from agenttape_core.experiments.strategies.shrinking import Shrinking, SpentError, Trees, ddmin
from agenttape_core.schema import Outcome, RecordedError


@given(st.integers(0, 40), st.data())
def test_what_is_needed_is_found(count: int, data: Any) -> None:
    """Of any units, exactly those are left that the failure needs, in their order."""
    needed = set(data.draw(st.sets(st.integers(0, max(count - 1, 0))))) if count else set()
    assert ddmin(range(count), lambda some: needed <= set(some)) == sorted(needed)


@given(st.sets(st.integers(0, 30), min_size=2))
def test_nothing_can_be_left_out_alone(either: set[int]) -> None:
    """Where one of several units is enough, one of them is left."""
    assert len(ddmin(range(31), lambda some: bool(either & set(some)))) == 1


def test_few_tries_find_one_of_many() -> None:
    """One of a thousand units is found in some twenty tries."""
    tries: list[Sequence[int]] = []
    assert ddmin(range(1000), lambda some: tries.append(some) or 617 in some) == [617]
    assert len(tries) < 30


MESSAGE = {"$chat_result": {"message": {"type": "ai", "content": '{"rows": [1, 2]}', "tool_calls": [{"name": "t"}]}}}


def test_parts_of_a_text_that_holds_json() -> None:
    """The JSON in a text is taken apart as the rest is, and the text stays one."""
    rows = ("$chat_result", "message", "content", JSON, "rows")
    found = dict(at_depth(MESSAGE, 3))
    assert (*rows, 0) in found
    smaller = without(MESSAGE, {(*rows, 0): "drop"})
    assert json.loads(smaller["$chat_result"]["message"]["content"]) == {"rows": [2]}
    assert [text for _, text in texts(MESSAGE)] == ["ai", "t"]


def test_objects_keep_their_structure() -> None:
    """An emptied message is a message; what was emptied holds nothing more that could be."""
    assert emptied(MESSAGE) == {"$chat_result": {"message": {"type": "ai", "content": ""}}}
    assert emptied(emptied(MESSAGE)) == emptied(MESSAGE)
    assert emptied({"$tuple": ["text", {"a": 1}]}) == {"$tuple": ["", {}]}


@pytest.mark.parametrize("smaller", [emptied, hollow])
@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(status="returned", value={"text": "long", "more": [1], "n": 3}),
        Outcome(status="streamed", chunks=["a", "b"], ended="exhausted", effects=[{"value": 1, "after": 2}]),
        Outcome(
            status="raised", error=RecordedError(type="m:E", message="no", args=["no"], bases=["builtins:Exception"])
        ),
        Outcome(status="streamed", chunks=["a"], ended="raised", error=RecordedError(type="m:E", message="no")),
    ],
)
def test_every_outcome_can_be_emptied(outcome: Outcome, smaller: Any) -> None:
    """Whatever came of a call, an empty outcome of that kind is one, and its errors keep their type."""
    made = outcome_with(outcome, smaller_tree(tree_of(outcome), smaller))
    assert (made.status, made.ended) == (outcome.status, outcome.ended)
    assert (made.error and made.error.type) == (outcome.error and outcome.error.type)
    assert all(effect.after <= len(made.chunks or ()) for effect in made.effects)


class _Run:
    """A run that fails while the texts of some calls hold some words."""

    def __init__(self, trees: Trees, words: set[str], limit: int = 10_000) -> None:
        self.trees, self._words, self._limit = trees, words, limit
        self.like_last: list[int] = []
        self.tries = 0

    def fails(self, changed: Trees) -> bool:
        self.tries += 1
        if self.tries > self._limit:
            raise SpentError
        held = json.dumps(list({**self.trees, **changed}.values()))
        return all(word in held for word in self._words)

    def keep(self, changed: Trees) -> bool:
        self.trees = {**self.trees, **changed}
        return True


@given(st.sets(st.integers(0, 99), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_outcomes_shrink_to_what_is_needed(needed: set[int]) -> None:
    """Of a hundred rows in several calls, the words that matter are left, and hardly anything else."""
    rows = [{"name": f"row {n}", "value": f"<{n}>", "other": "x" * 20} for n in range(100)]
    trees = {call: {"value": rows[20 * call : 20 * call + 20]} for call in range(5)}
    run = _Run(trees, {f"<{n}>" for n in needed})
    assert Shrinking(run).shrink()
    assert len(json.dumps(list(run.trees.values()))) < 80 + 40 * len(needed)
    assert run.tries < 300


def test_the_best_so_far_is_kept() -> None:
    """A search that may go on no longer keeps what it has found."""
    run = _Run({1: {"value": ["x" * 100] * 10 + ["<7>"] + ["y" * 100] * 40}}, {"<7>"}, limit=10)
    assert not Shrinking(run).shrink()
    assert len(json.dumps(run.trees[1])) < 2500
