"""`agenttape lab shrink`: the smallest cassette that still fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.labs import experiment, with_runs
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.shrink import MAX_REPLAYS, Shrunk, write_test
from agenttape_core.experiments.strategies.shrink import shrink as run_shrink


@experiment(
    "agenttape lab shrink tests/test_desk.py::test_no_amounts --cassette runs/incident-417.jsonl",
    click.option("-o", "--output", "to", metavar="FILE", help="Write the cassette here; by default NAME.minimal.yaml."),
    with_runs(MAX_REPLAYS, "Replay the program N times at most."),
    click.option("--no-test-file", is_flag=True, help="Write no pytest file."),
)
def shrink(program: Program, path: Path | None, *, no_test_file: bool, **given: Any) -> Shrunk:
    """Find the smallest cassette with which a program still fails the same way.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Writes
    NAME.minimal.yaml, and for a single test or function a pytest file that replays it. No model or tool is called.
    """
    found = run_shrink(program, path, **given)
    if no_test_file or program.source is None:
        return found
    return replace(found, test=write_test(found, program.source))
