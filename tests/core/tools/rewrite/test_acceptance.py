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
GROUPS = (("functions", "langchain", "langgraph"), ("llamaindex",))


@pytest.mark.parametrize("kinds", GROUPS, ids=["functions-langchain-langgraph", "llamaindex"])
def test_replays_after_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: Sequence[str]) -> None:
    """The secret is in no byte any more, and a program that holds it gets it back, in every framework."""
    rules = dedent("""\
        [tool.agenttape]
        redaction_rules = [{name = "project", env = "PROJECT"}, {name = "customer", keys = ["customer_id"]}]
    """)

    def ran(folder: Path, mode: str, kinds: Sequence[str], **variables: str) -> Any:
        """Run programs in a process of its own, and return what they came to."""
        command = [sys.executable, "-m", "tests.core.tools.rewrite.programs", mode, *kinds]
        environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROJECT", SECRET)
    recorded = ran(tmp_path, "all", kinds)
    assert all(SECRET in (tmp_path / f"{kind}.yaml").read_text() for kind in kinds)

    (tmp_path / "pyproject.toml").write_text(rules)
    assert run(["check", "--only", "secrets", "."]) == 1
    assert run(["cassette", "redact", "."]) == 0
    assert run(["check", "--only", "secrets", "."]) == 0

    for path in tmp_path.rglob("*"):
        if path.is_file():
            for piece in (SECRET[:8], SECRET[9:]):
                assert piece.encode() not in path.read_bytes(), path
    assert ran(tmp_path, "none", kinds, PROJECT=SECRET) == recorded
