"""The project that newcomers copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pytest_project"


def test_a_fresh_copy_replays(tmp_path: Path) -> None:
    """Its tests pass in a fresh copy, with nobody to answer and no key, and leave its cassettes as they are."""
    project = tmp_path / "support"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    before = {path: path.read_bytes() for path in project.rglob("*.yaml")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:recording", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 calls served, 0 executed" in done.stdout
    assert {path: path.read_bytes() for path in project.rglob("*.yaml")} == before
