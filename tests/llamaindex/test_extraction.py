"""Objects out of text, in all forms that the framework has."""

from __future__ import annotations

from pathlib import Path

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay
from .programs import PROGRAMS

pytestmark = FRAMEWORK_WARNINGS


def test_a_replayed_extraction_is_the_same_run(tmp_path: Path) -> None:
    """Objects, partial objects of streams, events and spans are equal."""
    recorded, replayed = record_and_replay(PROGRAMS["extraction"], tmp_path / "extraction.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log


def test_what_fills_in_an_object_is_no_tool(tmp_path: Path) -> None:
    """The function that the framework makes of a class runs; only models are recorded."""
    recorded, _ = record_and_replay(PROGRAMS["extraction"], tmp_path / "extraction.yaml")
    assert {item.kind for item in recorded.cassette.interactions} == {"chat", "embeddings"}
