"""Agents run on every replay: their models and tools are served, and everything that can be seen of them is equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay
from .programs import PROGRAMS

pytestmark = FRAMEWORK_WARNINGS

SEQUENTIAL = [
    "function_agent",
    "function_agent_that_does_not_stream",
    "parallel_tools",
    "agent_whose_tool_fails",
    "agent_with_structured_output",
    "react_agent",
    "code_act_agent",
    "handoff",
    "tool_that_asks_a_human",
    "agent_with_memory",
    "agent_with_history",
]


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_replayed_agent_is_the_same_run(name: str, tmp_path: Path) -> None:
    """Values, streamed events, instrumentation events and spans are equal, with all ids and times."""
    recorded, replayed = record_and_replay(PROGRAMS[name], tmp_path / "agent.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log


def test_an_agent_that_is_a_tool_says_the_same(tmp_path: Path) -> None:
    """An agent within another's tool is served with the tool: the events that are seen and the answer are equal."""
    recorded, replayed = record_and_replay(PROGRAMS["agent_as_tool"], tmp_path / "agent.yaml")
    assert replayed.value == recorded.value
    assert "ask_expert" in {row.name for row in recorded.cassette.interactions}
