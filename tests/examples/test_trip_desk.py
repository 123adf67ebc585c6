"""The trip desk tells its story: it crashes, is resumed, is replayed for nothing, and is forked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import EXAMPLES

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the example prints, also for a reader who has set a mode."""
    temporary = tmp_path_factory.mktemp("trip")
    variables = {"PYTHONPATH": str(EXAMPLES), "TMPDIR": str(temporary), "AGENTTAPE_MODE": "all"}
    command = [sys.executable, "-m", "trip_desk.demo"]
    ended = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    assert list(Path(temporary).iterdir()) == []
    return ended.stdout


def test_story_is_told_to_its_end(told: str) -> None:
    """All steps are told in order, and everything is as it is said."""
    titles = re.findall(r"^\[(\d)\] ([A-Z ]+)", told, re.MULTILINE)
    assert [(number, title.strip()) for number, title in titles] == [
        ("1", "RECORD"),
        ("2", "RESUME"),
        ("3", "REPLAY"),
        ("4", "WHAT IF"),
        ("5", "WHAT IF"),
        ("6", "WHAT IF"),
    ]
    assert "crashed: the ferry's computer does not answer" in told
    assert "WRONG" not in told
    assert "ALL AS IT SHOULD BE." in told


def test_forks_and_their_diff_are_shown(told: str) -> None:
    """Each fork shows which call was executed, and the last one where it parts from the recording."""
    assert told.count("1 live") == 3
    assert told.count("  live   chat ChatOpenAI at LangGraph#3/letter@") == 3
    assert re.search(r"\| the first divergence is step .* node book at LangGraph/book@2", told)
    assert "{+A friend comes along.; +}" in told
