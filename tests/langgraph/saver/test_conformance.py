"""LangGraph's conformance suite for checkpointers, on ours alone and around others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES, DetectedCapabilities
from langgraph.checkpoint.conformance.report import CapabilityReport

from agenttape_langgraph import TapeSaver

from .threads import INNERS, any_saver, inner_saver


async def conformance(make: object) -> CapabilityReport:
    """Return the report of LangGraph's suite about the savers that an async generator function yields."""
    return await validate(checkpointer_test(name="ours")(make))


def unmet(report: CapabilityReport) -> dict[str, list[str]]:
    """Return the failures of a report."""
    return {name: result.failures for name, result in report.results.items() if result.failures}


async def test_the_saver_has_every_capability_and_passes(tmp_path: Path) -> None:
    """Alone, every capability that the suite knows is detected and passes, the extended ones too."""
    files = iter(range(100))

    async def make() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async with TapeSaver(tmp_path / f"{next(files)}.sqlite") as saver:
            yield saver

    report = await conformance(make)
    assert unmet(report) == {}
    assert report.passed_all()
    assert {name for name, result in report.results.items() if result.detected} == {it.value for it in ALL_CAPABILITIES}


@pytest.mark.parametrize("kind", [*INNERS, "full"])
async def test_a_saver_around_another_has_its_capabilities_and_passes(kind: str, tmp_path: Path, address: str) -> None:
    """Around another saver, exactly the capabilities of that one are detected, and pass."""
    files = iter(range(100))
    async with inner_saver(kind, address) as inner:
        theirs = {capability.value for capability in DetectedCapabilities.from_instance(inner).detected}

    async def make() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async with any_saver(kind, tmp_path / f"{next(files)}.sqlite", address) as saver:
            yield saver

    report = await conformance(make)
    assert unmet(report) == {}
    assert report.passed_all_base()
    assert {name for name, result in report.results.items() if result.detected} == theirs


@pytest.mark.parametrize("kind", INNERS)
async def test_the_copy_conforms_like_what_it_copies(kind: str, tmp_path: Path, address: str) -> None:
    """All that the suite stores through a saver around another is in the file, equal to that of the other one."""
    file = tmp_path / "one.sqlite"
    async with any_saver(kind, file, address) as saver:

        async def make() -> AsyncIterator[BaseCheckpointSaver[str]]:
            yield saver

        await conformance(make)
        threads = {found.config["configurable"]["thread_id"] for found in saver.local.list(None)}
        assert len(threads) > 30
        for thread in threads:
            config = {"configurable": {"thread_id": thread}}
            replayed = [found async for found in saver.alist(config)]
            copied = {
                (it.config["configurable"]["checkpoint_ns"], it.checkpoint["id"]): it for it in saver.local.list(config)
            }
            assert len(copied) == len(replayed)
            for found in replayed:
                ours = copied[found.config["configurable"]["checkpoint_ns"], found.checkpoint["id"]]
                assert ours.parent_config == found.parent_config
                assert ours.metadata == found.metadata
                assert ours.pending_writes == found.pending_writes
                assert ours.checkpoint["channel_versions"] == found.checkpoint["channel_versions"]
                assert found.checkpoint["channel_values"].items() <= ours.checkpoint["channel_values"].items()
