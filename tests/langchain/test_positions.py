"""Where calls stand in the tree of runs, and who is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from agenttape_core import use_cassette
from agenttape_langchain import address


class Chains:
    """Follows the chains of a session."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def began(self, run_id: Any, parent_run_id: Any, run: Any, told: Any) -> None:
        self.told.append(f"began {told.name}")

    def ended(self, run_id: Any, output: Any) -> None:
        self.told.append("ended")

    def failed(self, run_id: Any, error: BaseException) -> None:
        self.told.append("failed")


def test_follower_of_a_package_that_is_imported_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is imported while a session is open follows its chains, though its tree has begun to grow."""
    monkeypatch.setattr(address, "_followers", list(address._followers))
    chains = Chains()
    with use_cassette(tmp_path / "late.yaml", mode="all"):
        RunnableLambda(str, name="early").invoke(1)
        address.register_follower(lambda session: chains)
        RunnableLambda(str, name="late").invoke(2)
        RunnableLambda(str, name="later").invoke(3)
    assert chains.told == ["began late", "ended", "began later", "ended"]
