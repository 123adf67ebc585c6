"""A cassette that was recorded before a rule existed replays, once it is redacted, in sessions that have the rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core.cli.app import run

from .programs import SECRET

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    "kinds",
    [("functions",), pytest.param(("functions", "langchain", "langgraph"), marks=pytest.mark.night)],
    ids=["functions", "frameworks"],
)
def test_replays_after_the_rule(kinds: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is in no byte any more, and a program that holds it gets it back, in frameworks too."""
    rules = dedent("""\
        [tool.agenttape]
        redaction_rules = [{name = "project", env = "PROJECT"}, {name = "customer", keys = ["customer_id"]}]
    """)

    def ran(mode: str, **variables: str) -> Any:
        """Run programs in a process of its own, and return what they came to."""
        command = [sys.executable, "-m", "tests.core.tools.rewrite.programs", mode, *kinds]
        environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROJECT", SECRET)
    recorded = ran("all")
    assert all(SECRET in (tmp_path / f"{kind}.yaml").read_text() for kind in kinds)

    (tmp_path / "pyproject.toml").write_text(rules)
    assert run(["check", "--only", "secrets", "."]) == 1
    assert run(["cassette", "redact", "."]) == 0
    assert run(["check", "--only", "secrets", "."]) == 0

    for path in tmp_path.rglob("*"):
        if path.is_file():
            for piece in (SECRET[:8], SECRET[9:]):
                assert piece.encode() not in path.read_bytes(), path
    assert ran("none", PROJECT=SECRET) == recorded
