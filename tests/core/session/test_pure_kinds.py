"""Embeddings depend on nothing but their request: one recording answers every equal one, and may stay unused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, UnusedInteractionsError

if TYPE_CHECKING:
    from pathlib import Path

asked: list[str] = []


@boundary("embeddings")
def embed(text: str) -> list[float]:
    """Embed a text, unless it is empty."""
    asked.append(text)
    if not text:
        raise ValueError("nothing to embed")
    return [float(len(asked))]


def test_a_recorded_embedding_is_replayed_as_often_as_asked(tmp_path: Path) -> None:
    """The recorded answers come in order, then the last one again; an error is no answer, and a new text is a miss."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        recorded = [embed("a"), embed("a")]
        with pytest.raises(ValueError, match="nothing"):
            embed("")
    asked.clear()
    for mode in ("none", "new_episodes"):
        with use_cassette(path, mode=mode) as session:
            assert [embed("a") for _ in range(4)] == [*recorded, recorded[1], recorded[1]]
        assert [replayed.match_rule for replayed in session.report.replayed[2:]] == ["repeated"] * 2
    with use_cassette(path, on_repeat="cycle"):
        assert [embed("a") for _ in range(4)] == recorded * 2
    assert asked == []
    with pytest.raises(CassetteMissError, match="was recorded only once"), use_cassette(path, on_unused="ignore"):
        for _ in range(2):
            with pytest.raises(ValueError, match="nothing"):
                embed("")


def test_an_embedding_that_nobody_asks_for_is_reported(tmp_path: Path) -> None:
    """It is in the report, and no failure; what else is unused is one, and is named alone."""

    @boundary("chat")
    def answer(text: str) -> str:
        """Answer."""
        return text

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        embed("a")
        answer("b")
    with use_cassette(path) as session:
        answer("b")
    assert [call_record.kind for call_record in session.report.unused] == ["embeddings"]
    assert session.report.judged == ()
    with pytest.raises(UnusedInteractionsError, match="1 of the 2") as failed, use_cassette(path):
        pass
    assert "embeddings" not in str(failed.value)
