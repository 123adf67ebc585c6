"""Addresses say where a call stands, and a selector selects calls by them, by kind, name, number or node."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Position
from agenttape_core.matching import Key, Selector, refuse_unselected
from agenttape_core.schema import IndexRow

ADDRESS = "LangGraph/planner@1/Chat#2"
ROWS = [
    IndexRow(1, "chat", "Chat", "Agent/planner@1/Chat", "a"),
    IndexRow(2, "tool", "search", "Agent/tools@1[0]/search", "b"),
    IndexRow(3, "chat", "Chat", "Agent/tools@1[0]/search/Chat", "c", 2),
    IndexRow(4, "tool", "search", "Agent/tools@1[1]/search", "d"),
    IndexRow(5, "call", "7", "Agent/7", "e"),
]


@pytest.mark.parametrize(
    ("pattern", "address", "selects"),
    [
        (ADDRESS, ADDRESS, True),
        ("planner", ADDRESS, True),
        ("planner@1", ADDRESS, True),
        ("plan", ADDRESS, False),
        ("**", ADDRESS, True),
        ("**/planner/**", ADDRESS, True),
        ("LangGraph/*/Chat", ADDRESS, True),
        ("LangGraph/*", ADDRESS, False),
        ("*/pl*/**", ADDRESS, True),
        ("**/writer/**", ADDRESS, False),
        ("LangGraph/tools/search", "LangGraph/tools@2[1]/search", True),
        ("LangGraph/tools@2[1]/search", "LangGraph/tools@2[1]/search", True),
        ("LangGraph/tools@2[0]/search", "LangGraph/tools@2[1]/search", False),
        ("work", "FunctionAgent.run~1/work/LLM.chat", True),
        ("FunctionAgent.run", "FunctionAgent.run~1/work/LLM.chat", True),
    ],
)
def test_places(pattern: str, address: str, selects: bool) -> None:
    """A node selects what is made in a step with any ordinal; anything else is compared with the whole address."""
    assert Selector((pattern,)).selects("chat", "Other", address) is selects


@pytest.mark.parametrize(
    ("key", "numbers"),
    [
        ("chat", [1, 3]),
        ("search", [2, 4]),
        ("tools", [2, 3, 4]),
        ("**/search/**", [2, 3, 4]),
        ("Agent/tools@1[1]/search", [4]),
        (3, [3]),
        ("3", [3]),
        ("7", [5]),
        (9, []),
        ("memory", []),
        ("serach", []),
    ],
)
def test_recorded_calls(key: Key, numbers: list[int]) -> None:
    """A kind or a name comes before a node; the run and the recording agree on which calls are meant."""
    selector = Selector((key,), ROWS)
    assert [row.number for row in selector.among(ROWS)] == numbers
    assert [row.number for row in ROWS if selector.selects(row.kind, row.name, row.address)] == numbers


def test_without_recordings() -> None:
    """As long as nothing is recorded, a word is a kind, a name or a node, and a number selects nothing."""
    selector = Selector(("search", 3))
    assert selector.selects("tool", "search", "Agent/search")
    assert selector.selects("tool", "other", "Agent/search/other")
    assert not selector.selects("tool", "other", "Agent/3")


def test_nothing_selected() -> None:
    """A key that selects nothing is refused with what is nearest to it, and so is one that isn't a key."""
    refuse_unselected(["search", 1], ROWS, "live", "c.yaml")
    with pytest.raises(ConfigurationError, match=r"live=.'serach'.: no recorded call of c.yaml is selected; .* search"):
        refuse_unselected(["serach"], ROWS, "live", "c.yaml")
    with pytest.raises(ConfigurationError, match="holds 5 interactions, and none has this number"):
        refuse_unselected([9], ROWS, "live", "c.yaml")
    with pytest.raises(ConfigurationError, match="expected a number, a kind"):
        Selector((True,), option="live")


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
