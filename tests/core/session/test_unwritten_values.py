"""A tool that is named in `step_into` may return what no codec can write: a replay runs its code to have it."""

# ruff: noqa: D103 - what is no test says by its name what it is

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordableValueError

if TYPE_CHECKING:
    from pathlib import Path


class Table:
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows


@boundary("chat")
def complete(prompt: str) -> str:
    return f"{prompt}!"


@boundary("tool")
def load(n: int) -> Table:
    return Table([n, complete("more")])


@boundary("tool")
async def aload(n: int) -> Table:
    return Table([n])


def test_its_code_runs_in_a_replay(tmp_path: Path) -> None:
    """The program gets a real value, and the calls inside are replayed."""
    for mode in ("all", "none", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode, step_into={"load", "aload"}) as cassette:
            assert load(3).rows == [3, "more!"]
            assert asyncio.run(aload(4)).rows == [4]
    assert [call_record.kind for call_record in cassette.report.stepped_into] == ["tool", "tool"]
    assert [call_record.kind for call_record in cassette.report.replayed] == ["chat"]


def test_recording_again_changes_nothing(tmp_path: Path) -> None:
    """The text that stands for the value has no address of memory in it."""
    texts = []
    for _ in range(2):
        with use_cassette(tmp_path / "run.yaml", mode="all", step_into={"tool"}):
            load(3)
        texts.append([line for line in (tmp_path / "run.yaml").read_text().splitlines() if "0x" in line])
    assert texts[0] == texts[1]
    assert len(texts[0]) == 1


@pytest.mark.parametrize("options", [{}, {"step_into": {"aload"}}, {"step_into": {"load"}, "replay_only": {"load"}}])
def test_all_others_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    """A replay has no value to give for them."""
    with (
        pytest.raises((UnrecordableValueError, CassetteMissError)),
        use_cassette(tmp_path / "run.yaml", mode="all", **options),
    ):
        load(3)
