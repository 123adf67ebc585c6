"""Ctrl-C ends an experiment, which returns what it has found so far."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import faults, flaky, orders, shrink, why


@boundary("tool")
async def look_up(name: str) -> str:
    """Find a fact."""
    return f"{name} is open from 6 to 11"


@boundary("chat")
async def ask(prompt: str) -> str:
    """Answer a prompt."""
    return prompt.upper()


async def answer() -> str:
    """Look up two places side by side, and ask about both."""
    facts = await asyncio.gather(look_up("Lucia"), look_up("Dune"))
    return await ask(", ".join(facts))


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    """The recorded run."""
    with use_cassette(tmp_path / "run.yaml", mode="once"):
        asyncio.run(answer())
    return tmp_path / "run.yaml"


def after(runs: int) -> Callable[[], None]:
    """Return what interrupts an experiment after some runs."""
    count = itertools.count(1)

    def interrupt() -> None:
        if next(count) == runs:
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.slow
def test_faults(cassette: Path, tmp_path: Path) -> None:
    """The cells that were tried are in the matrix, which shows how many were not; a later run tries those alone."""
    found = faults(answer, cassette, on_run=after(6))
    assert len(found.cells) == 3
    assert f"interrupted: {found.untried} faults not tried" in str(found)
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"tests": [found.to_dict()]}))
    runs: list[None] = []
    resumed = faults(answer, cassette, resume=report, on_run=lambda: runs.append(None))
    assert len(runs) == 2 + found.untried, "a plain run and a control besides"
    assert resumed == faults(answer, cassette)


@pytest.mark.slow
def test_orders(cassette: Path) -> None:
    """The orders that were tried are no proof that all are the same."""
    assert (orders(answer, cassette).orders, orders(answer, cassette).is_exhaustive) == (2, True)
    found = orders(answer, cassette, on_run=after(5))
    assert (found.orders, found.is_exhaustive, found.is_whole) == (1, False, False)
    assert "interrupted" in str(found)


def test_why(cassette: Path) -> None:
    """The links that were tested are shown."""
    found = why(answer, cassette, on_run=after(5))
    assert [edge.source for edge in found.links] == [1]
    assert "interrupted: not each recorded answer was tried" in str(found)


@pytest.mark.slow
def test_shrink(cassette: Path) -> None:
    """The cassette that was found so far is written, and still fails."""

    async def fails() -> None:
        """Fail by what the model says."""
        assert "LUCIA" not in await answer()

    found = shrink(fails, cassette, on_run=after(12))
    assert not found.is_minimal
    assert found.replays < shrink(fails, cassette, to=cassette.with_name("whole.yaml")).replays
    assert found.cassette.is_file()


@pytest.mark.slow
def test_flaky(cassette: Path) -> None:
    """The parts that were varied are shown, with their samples, and no other part is begun."""
    part: Any = flaky(answer, cassette, samples=3, processes=0, on_run=after(3))
    assert [(group.part, len(group.samples), group.skipped) for group in part.groups] == [("code", 2, "interrupted")]
    late: Any = flaky(answer, cassette, samples=3, processes=0, on_run=after(8))
    assert [(group.part, group.skipped) for group in late.groups] == [("code", ""), ("order", "interrupted")]
    found: Any = flaky(answer, cassette, samples=3, processes=0, on_run=after(5))
    assert [group.part for group in found.groups] == ["code"]
    assert "interrupted: not all parts were tried" in found.notes


def test_what_does_not_keep_anything(cassette: Path) -> None:
    """Before there is anything to compare with, an interruption is one."""
    with pytest.raises(KeyboardInterrupt):
        faults(answer, cassette, on_run=after(1))
    with pytest.raises(ConfigurationError, match="not a report of this experiment as JSON"):
        faults(answer, cassette, resume=cassette)
