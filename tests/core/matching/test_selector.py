"""A selector selects calls by kind, name, number, node, address or a pattern of places."""

from __future__ import annotations

import pytest

from agenttape_core.errors import ConfigurationError
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
