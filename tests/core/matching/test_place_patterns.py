"""Patterns of places select calls by the steps of their address."""

from __future__ import annotations

import pytest

from agenttape_core.matching import PlacePattern

ADDRESS = "LangGraph/planner@1/Chat#2"


@pytest.mark.parametrize(
    ("pattern", "address", "selects"),
    [
        (ADDRESS, ADDRESS, True),
        ("planner", ADDRESS, True),
        ("planner@1", ADDRESS, True),
        ("plan", ADDRESS, False),
        ("Chat", ADDRESS, True),
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
def test_selecting(pattern: str, address: str, selects: bool) -> None:
    """A name selects a step with any ordinal; anything else is compared with the whole address."""
    assert PlacePattern(pattern).selects(address) is selects
