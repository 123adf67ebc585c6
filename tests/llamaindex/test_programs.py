"""What is recorded of programs. That they are the same on replay is tested with those of the other frameworks."""

from __future__ import annotations

from pathlib import Path

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay
from .programs import PROGRAMS

pytestmark = FRAMEWORK_WARNINGS


def test_an_agent_that_is_a_tool_is_recorded_as_a_tool(tmp_path: Path) -> None:
    """An agent within another's tool is recorded with the tool around it."""
    recorded, _ = record_and_replay(PROGRAMS["agent_as_tool"], tmp_path / "agents.yaml")
    assert "ask_expert" in {row.name for row in recorded.cassette.interactions}


def test_the_function_that_fills_in_an_object_is_no_tool(tmp_path: Path) -> None:
    """The function that the framework makes of a class runs; only models are recorded."""
    recorded, _ = record_and_replay(PROGRAMS["extraction"], tmp_path / "objects.yaml")
    assert {item.kind for item in recorded.cassette.interactions} == {"chat", "embeddings"}
