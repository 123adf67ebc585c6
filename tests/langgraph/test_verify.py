"""`verify` finds old defects of replays when they are put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agenttape_core import use_cassette, verify

from . import put_back

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _not_in_each_run(pytestconfig: pytest.Config) -> None:
    """Leave these, which start a dozen processes with LangGraph, to `make identical`."""
    if pytestconfig.getoption("replays") < 20:
        pytest.skip("run by make identical")


def test_merged_handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where handlers are merged as a set, as LangChain does, ids of messages are blamed on where they lie in memory.

    Where they lie is chance, so each run may have another order than the recording, or only some.
    """
    monkeypatch.chdir(tmp_path)
    with use_cassette("ids", mode="all"):
        put_back.merged_handlers()
    monkeypatch.setenv("PUT_BACK", "1")
    found = verify(put_back.merged_handlers, "ids", runs=5, vary={"memory"})
    assert found.failure is None
    causes = {(bool(difference.runs[0]), difference.cause.name) for difference in found.differences}
    assert causes
    assert causes <= {(True, "memory address"), (False, "not as recorded")}


def test_orders_and_agents_within_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversations in another order, branches that race, and an agent that a replay leaves out: each has its cause."""
    monkeypatch.chdir(tmp_path)
    assert put_back.several()["branches"] == ["c", "b", "a"]
    sound = verify(put_back.several, runs=2, vary={"hash_seed"})
    # The conversations begin in the order of a set.
    assert (sound.failure, {each.what for each in sound.differences}) == (None, {"order of calls"}), str(sound)
    monkeypatch.setenv("PUT_BACK", "1")
    found = verify(put_back.several, runs=2, vary={"hash_seed"})
    assert found.failure is None
    conversations = {each.cause.name for each in found.differences if "$.conversations" in each.what}
    branches = {each.cause.name for each in found.differences if each.what.startswith("order of threads of branches")}
    assert (conversations, branches) == ({"hash seed"}, {"not as recorded"}), str(found)
    left_out = [each.cause.name for each in found.differences if each.what.startswith("step agent LangGraph at ")]
    assert left_out == ["not as recorded"], str(found)
