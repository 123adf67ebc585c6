"""Packages can be imported and used for the first time within a session: a sample of `make imports`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = ("httpx", "numpy", "orjson", "pydantic", "sqlalchemy")


@pytest.mark.process
def test_a_sample_of_packages(tmp_path: Path) -> None:
    """First imported and used in a session that records, then in one that replays, and used after both."""
    process = Path(__file__).with_name("process.py")
    for mode in ("all", "none"):
        run = subprocess.run(
            [sys.executable, str(process), mode, *SAMPLE], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
