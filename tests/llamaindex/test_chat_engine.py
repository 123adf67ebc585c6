"""Chat engines with memories, over five turns."""

from __future__ import annotations

from pathlib import Path

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay
from .programs import PROGRAMS

pytestmark = FRAMEWORK_WARNINGS


def test_a_replayed_chat_is_the_same_run(tmp_path: Path) -> None:
    """Turns, tokens, histories, events and spans are equal for each engine, in whatever thread a turn is streamed."""
    recorded, replayed = record_and_replay(PROGRAMS["chat_engines"], tmp_path / "chat.yaml")
    assert replayed.value == recorded.value
    assert replayed.multiset == recorded.multiset
