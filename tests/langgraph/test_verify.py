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
    """Where handlers are merged as a set, as LangChain does, ids of messages are blamed on where they lie in memory."""
    monkeypatch.chdir(tmp_path)
    with use_cassette("ids", mode="all"):
        put_back.merged_handlers()
    monkeypatch.setenv("PUT_BACK", "1")
    found = verify(put_back.merged_handlers, "ids", times=5, vary={"memory"})
    assert found.failure is None
    assert {difference.cause.name for difference in found.differences} == {"memory address"}


def test_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversations that begin in another order and branches that race are found, each with its cause."""
    monkeypatch.chdir(tmp_path)
    assert put_back.in_order()["branches"] == ["c", "b", "a"]
    monkeypatch.setenv("PUT_BACK", "1")
    found = verify(put_back.in_order, times=2, vary={"hash_seed"})
    assert found.failure is None
    conversations = {each.cause.name for each in found.differences if "conversations" in each.what}
    branches = {each.cause.name for each in found.differences if each.what.startswith("order of threads of branches")}
    assert (conversations, branches) == ({"hash seed"}, {"not as recorded"}), str(found)
