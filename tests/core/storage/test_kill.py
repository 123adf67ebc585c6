"""A recording process may die at any moment: nothing that had ended is lost, and nothing old is harmed.

How processes are killed and what must hold then is in `killing/child.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

CHILD = Path(__file__).parent / "killing" / "child.py"


@pytest.mark.skipif(not hasattr(os, "fork") or not hasattr(signal, "SIGKILL"), reason="needs fork and SIGKILL")
def test_a_killed_recording_loses_nothing_that_had_ended(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """After SIGKILL the cassette is the old or the new one, every finished call is recovered, and all goes on."""
    count = request.config.getoption("--kills")
    command = [sys.executable, str(CHILD), str(tmp_path), str(count)]
    child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert child.returncode == 0, child.stderr[-2000:]
    report: dict[str, Any] = json.loads(child.stdout)
    assert not report["failures"], "\n".join(report["failures"])
    tally = Counter(report["tally"])
    assert tally.total() == count
    assert min(tally[when] for when in ("beginning", "recording", "committed")) > count // 50  # at all sorts of moments
