"""`agenttape check --score`: scores of recorded runs, which are not run again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import run

from .conftest import support

EVALUATORS = """
def length(outputs):
    return len(outputs["answer"]) / 100

def short(outputs):
    return len(outputs["answer"]) < 10

def broken(outputs):
    raise OSError("gone")
"""


@pytest.fixture
def score(recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Score the cassettes of the folder; return the exit code and the rows."""
    (recorded.parent / "house_scores.py").write_text(EVALUATORS)
    monkeypatch.syspath_prepend(str(recorded.parent))

    def score(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run(["check", "--only", "score", ".", *words, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out)["scores"] if out else None

    yield score
    sys.modules.pop("house_scores", None)


def test_scores_are_added_replaced_selected_and_removed(score: Any, recorded: Path) -> None:
    """A score is added beside the others, kept, replaced and removed; the cassette stays."""
    before = recorded.read_bytes()
    assert score()[1] == [{"run": "support.yaml", "scores": {}, "stale": False, "findings": []}]
    assert not Path("support.scores.json").exists()
    assert score("--evaluator", "house_scores:length")[1][0]["scores"] == {"length": 0.3}
    written = Path("support.scores.json").read_bytes()
    assert score("--evaluator", "house_scores:length")[0] == 0
    assert Path("support.scores.json").read_bytes() == written
    assert score("--evaluator", "house_scores:short")[1][0]["scores"] == {"length": 0.3, "short": False}
    Path("support.scores.json").write_text(written.decode().replace("0.3", "0.5"))
    assert score("--evaluator", "house_scores:length")[1][0]["scores"] == {"length": 0.5}
    assert score("--evaluator", "house_scores:length", "--replace")[1][0]["scores"] == {"length": 0.3}
    assert score("--remove", "length")[1][0]["scores"] == {}
    assert recorded.read_bytes() == before


def test_scores_of_another_recording_are_dropped(score: Any, recorded: Path) -> None:
    """Scores of a run that was recorded anew with another answer are told, and not kept."""
    score("--evaluator", "house_scores:length")
    with use_cassette(recorded, mode="all"):
        support(answer="No.")
    assert score()[1] == [{"run": "support.yaml", "scores": {}, "stale": True, "findings": []}]
    assert score("--evaluator", "house_scores:short")[1][0]["scores"] == {"short": True}


def test_an_evaluator_that_fails(score: Any) -> None:
    """An evaluator that raises is a finding, and costs no other score."""
    code, rows = score("--evaluator", "house_scores:broken", "--evaluator", "house_scores:length")
    assert (code, rows[0]["scores"], rows[0]["findings"][0]["message"]) == (
        1,
        {"length": 0.3},
        "broken raised OSError",
    )
    Path("support.scores.json").write_text("[]")
    assert score()[0] == 2
    assert score("--evaluator", "house_scores:missing")[0] == 2
