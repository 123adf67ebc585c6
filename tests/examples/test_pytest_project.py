"""The projects that newcomers copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "beside", "replayed"), [("pytest_project", (), 12), ("llamaindex_project", ("library_agent",), 9)]
)
def test_a_fresh_copy_replays(example: str, beside: tuple[str, ...], replayed: int, tmp_path: Path) -> None:
    """Its tests pass in a fresh copy, with nobody to answer and no key, and leave its cassettes as they are."""
    for name in (example, *beside):
        ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
        shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=ignored)
    project = tmp_path / example
    before = {path: path.read_bytes() for path in project.rglob("*.yaml")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTEST_"))}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a newcomer does not have the plugins of these tests
    command = [sys.executable, "-m", "pytest", "-q", "-p", "agenttape", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"replayed, {replayed} calls" in done.stdout
    assert {path: path.read_bytes() for path in project.rglob("*.yaml")} == before
