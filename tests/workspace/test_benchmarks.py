"""The benchmarks work; what they measure is for people to read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


def test_quick(tmp_path: Path) -> None:
    """Every measurement can be made, and its table is written between the markers of a page."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\nafter\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTAPE_")}
    subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "run.py", "--quick", "--write", page],
        check=True,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
    )
    written = page.read_text()
    assert "| replay short chat (yaml), `tape(model)` | " in written
    assert "Measured with " in written
    assert (written.startswith("before\n"), written.endswith("after\n"), "old" in written) == (True, True, False)
