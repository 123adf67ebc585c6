"""The program of a child process: replays of cassettes that another process has recorded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from agenttape_core.testing.bench import QUESTION, Bench
from agenttape_core.tools.target import Target, load

ANSWER = "agenttape-answer: "
"""The beginning of the line that holds the answer: suites and frameworks may print others."""


def main(first: str) -> None:
    """For each job, replay the questions, and print the texts of the answers.

    Args:
        first: The first job as JSON, which has been read already; each line of the standard input is one more.
    """
    for line in chain([first], sys.stdin):
        job = json.loads(line)
        sys.path[:] = job["path"]
        os.chdir(job["working"])
        sys.stdout.write(f"\n{ANSWER}{json.dumps(_replayed(job))}\n")
        sys.stdout.flush()


def _replayed(job: Mapping[str, Any]) -> list[str]:
    suite: Bench = load(Target(*job["target"]))()
    suite.setup_method()
    own, suite.folder = suite.folder, Path(job["folder"])
    try:
        with suite.replay():
            return [suite.says(shape, suite.subject(), QUESTION) for shape in suite.shapes]
    finally:
        suite.folder = own
        suite.teardown_method()
