"""Engines run on every replay: their models and embeddings are served, and everything that can be seen is equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay
from .programs import PROGRAMS

pytestmark = FRAMEWORK_WARNINGS


@pytest.mark.parametrize(
    "name",
    [
        "rag",
        "response_modes",
        "concurrent_synthesis",
        "router",
        "streaming_router",
        "sub_questions",
        "streaming_sub_questions",
        "citations",
        "agentic_rag",
        "ingestion",
    ],
)
def test_a_replayed_engine_is_the_same_run(name: str, tmp_path: Path) -> None:
    """Answers, sources, streamed tokens, instrumentation events and spans are equal, with all ids and times."""
    recorded, replayed = record_and_replay(PROGRAMS[name], tmp_path / "engine.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
