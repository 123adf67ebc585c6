"""`agenttape lab why`: the recorded answers that have changed a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.labs import experiment, with_jobs, with_runs
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.why import MAX_REPLAYS, Why
from agenttape_core.experiments.strategies.why import why as run_why


@experiment(
    "agenttape lab why desk.py:answer --cassette cassettes/desk.yaml --text 9981",
    click.option("--call", type=int, metavar="N", help="Ask about this call; by default the last answer of a model."),
    click.option("--text", metavar="TEXT", help="Ask about this text, as it is in an answer."),
    with_runs(MAX_REPLAYS, "Replay the program N times at most."),
    with_jobs,
)
def why(program: Program, path: Path | None, **given: Any) -> Why:
    """Find which recorded answers have changed a call, each link tested by a replay.

    TARGET is a file or the id of a test, module:function, path/to/file.py:function, or a command after --. Each
    recorded answer is changed once, and the program replayed: the calls that then request something else depend on it.
    No model or tool is called.
    """
    return run_why(program, path, **given)
