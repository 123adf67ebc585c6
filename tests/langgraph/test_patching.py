"""Other tools wrap the methods of the framework that sessions wrap; see `tests/core/test_patching.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.callbacks import CallbackManager
from langgraph.checkpoint.memory import InMemorySaver

from ..kit.foreign_wrappers import frames_in_sessions


@pytest.mark.parametrize(
    ("owner", "name"), [(CallbackManager, "merge"), (CallbackManager, "on_chain_start"), (InMemorySaver, "put")]
)
def test_sessions_and_another_tool_do_not_pile_up_wrappers(owner: type, name: str, tmp_path: Path) -> None:
    """A tool that wraps a method in each session, and unwraps it later, never finds more there than at first."""
    found = frames_in_sessions(owner, name, tmp_path / "run.yaml")
    assert found == found[:1] * len(found)
