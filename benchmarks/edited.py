"""MutationScore: a function with a cassette, of which each small edit is tried."""

from __future__ import annotations

import os
import runpy
import time
from collections.abc import Iterator
from pathlib import Path

from measure import FULL, Row, Scale

from agenttape_core import experiments, use_cassette

_PROGRAM = """
from agenttape_core import boundary

@boundary("chat")
def ask(question):
    return "Yes."

def answer():
    found = [ask("You are a librarian. Say yes or no. Never promise a date. Do you have a book called Emma?")]
    for title in ["Dune", "Solaris", "Ubik"]:
        found.append(ask(f"You are a librarian. Be brief. Use short words. Always be kind. Do you have {title}?"))
    return found
"""


def mutants(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure how many edits are tried in a second of the clock, each in a process of its own."""
    (folder / "edited.py").write_text(_PROGRAM)
    program = runpy.run_path(str(folder / "edited.py"))
    with use_cassette(folder / "edited.yaml", mode="record"):
        program["answer"]()
    here = Path.cwd()
    os.chdir(folder)
    moments: list[float] = []
    try:
        experiments.mutants(
            "edited.py:answer",
            folder / "edited.yaml",
            runs=max(scale.calls // 10, 3),
            on_run=lambda *_: moments.append(time.perf_counter()),
        )
    finally:
        os.chdir(here)
    yield Row("adequacy: mutants of a function a second", f"{(len(moments) - 1) / (moments[-1] - moments[0]):.0f}")
