"""Files grow with what is new, not with what is sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from agenttape_core.schema import Header, Interaction, Timing
from agenttape_core.storage import Journal, open_cassette, write_cassette

if TYPE_CHECKING:
    from pathlib import Path

MakeAgent = Callable[[int], list[Interaction]]


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_an_agent_of_200_turns_fits_in_600_kilobytes(tmp_path: Path, agent: MakeAgent, suffix: str) -> None:
    """400 interactions over a growing history stay small and come back whole."""
    path = tmp_path / f"agent{suffix}"
    recorded = agent(200)

    write_cassette(path, Header(name="agent"), recorded)

    assert path.stat().st_size <= 600_000
    assert list(open_cassette(path).interactions()) == recorded


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_files_grow_linearly(tmp_path: Path, agent: MakeAgent, suffix: str) -> None:
    """Twice the turns make twice the file."""
    sizes = []
    for turns in (20, 40):
        path = tmp_path / f"agent{turns}{suffix}"
        write_cassette(path, Header(name="agent"), agent(turns))
        sizes.append(path.stat().st_size)

    assert sizes[1] < 2.1 * sizes[0]


def test_the_journal_grows_linearly_too(tmp_path: Path, agent: MakeAgent) -> None:
    """A recording in progress needs no more room on disk than its cassette."""
    journal = Journal(tmp_path / "agent.yaml", Header(name="agent"))
    for interaction in agent(100):
        journal.append(interaction, Timing(duration_ms=1.0), (interaction.number,))
    size = journal.path.stat().st_size
    journal.commit(Header(name="agent"))

    assert size < 1.5 * (tmp_path / "agent.yaml").stat().st_size
