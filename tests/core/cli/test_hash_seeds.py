"""Commands that run a program in their own process run it with the hash seed of its recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

AGENTTAPE = Path(sys.executable).with_name("agenttape")


@pytest.mark.process
def test_a_program_is_run_with_the_recorded_seed(tmp_path: Path) -> None:
    """Its sets have the recorded order, so the command finds its calls; its folder holds none of our modules."""
    program = dedent("""
        from agenttape_core import boundary, use_cassette


        @boundary
        def ask(question: str) -> str:
            return question


        def answer():
            with use_cassette("desk.yaml"):
                ask(" ".join({f"word{number}" for number in range(20)}))
    """)

    def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command; if it is given no hash seed, Python draws one."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONHASHSEED"))}
        return subprocess.run(
            command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=60, check=False
        )

    (tmp_path / "desk.py").write_text(program, encoding="utf-8")
    recording = run(
        tmp_path, sys.executable, "-c", "from desk import answer; answer()", AGENTTAPE_MODE="once", PYTHONHASHSEED="7"
    )
    assert recording.returncode == 0, recording.stderr
    (tmp_path / "click.py").write_text("raise SystemExit('not this one')", encoding="utf-8")
    found = run(tmp_path, str(AGENTTAPE), "lab", "why", "desk.py:answer", "--cassette", "desk.yaml")
    assert found.returncode == 0, found.stdout + found.stderr
