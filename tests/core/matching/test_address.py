"""Addresses say where a call stands, whatever was faster."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.integration import Position


def test_path() -> None:
    """An address is the path of labels from the root; equal siblings are counted."""
    root = Position()
    agent = root.child("agent")
    addresses = [agent.child(label).address for label in ("model", "tool", "model", "tool", "tool")]
    assert addresses == ["agent/model", "agent/tool", "agent/model#2", "agent/tool#2", "agent/tool#3"]


@given(st.lists(st.lists(st.text("ab/#~%@\n", min_size=1, max_size=3), min_size=1, max_size=3), min_size=1, max_size=4))
def test_unique(paths: list[list[str]]) -> None:
    """No two positions have one address, whatever characters their labels are made of."""
    root, positions = Position(), []
    for path in paths:
        position = root
        for label in path:
            position = position.child(label)
            positions.append(position.address)
    assert len(set(positions)) == len(positions)
    assert not any("\n" in address for address in positions)


def test_order_of_a_sequence() -> None:
    """Positions sort in the order in which they began, and children after what came before their parent."""
    root = Position()
    first = root.child("b")
    inner = first.child("z")
    second = root.child("a")
    assert sorted([second.order, inner.order, first.order]) == [first.order, inner.order, second.order]


def test_parallel_siblings() -> None:
    """Siblings of a group share the place of the first, so which of them started first does not show in the order."""
    orders = set()
    for labels in itertools.permutations(["x", "y", "z"]):
        root = Position()
        root.child("before")
        group = {label: root.child(label, group="parallel") for label in labels}
        after = root.child("after")
        everything = sorted([*((p.order, p.address) for p in group.values()), (after.order, after.address)])
        orders.add(tuple(address for _, address in everything))
    assert orders == {("x", "y", "z", "after")}


def test_given_place() -> None:
    """A superstep that the framework names decides the order, not the start."""
    root = Position()
    late, early = root.child("late", at=2), root.child("early", at=1)
    assert sorted([late.order, early.order]) == [early.order, late.order]


def test_given_place_in_a_group() -> None:
    """A place within a group that the framework names decides the order in the group, and no label does."""
    root = Position()
    calls = {n: root.child(f"{label}[{n}]", group="call", within=n) for n, label in ((1, "a"), (10, "b"), (2, "c"))}
    assert sorted(calls, key=lambda n: calls[n].order) == [1, 2, 10]


def test_beside() -> None:
    """What runs in the same tree and not below a position is beside it; what is below it or in another tree is not."""
    root = Position()
    graph = root.child("graph")
    one, two = graph.child("one", at=1), graph.child("two", at=1)
    other = root.child("thread")
    assert [place.is_beside(one.child("tool")) for place in (two, two.child("model"), one, graph)] == [True] * 4
    assert [place.is_beside(one) for place in (one, one.child("model"), other, other.child("model"))] == [False] * 4
