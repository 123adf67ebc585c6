"""The program of a child process: a replay of a cassette that another process has recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agenttape_core.testing.bench import QUESTION, Bench
from agenttape_core.tools.verify.target import Target, load


def main(job: Mapping[str, Any]) -> None:
    """Replay the questions of the parent, and print the texts of the answers as JSON.

    Args:
        job: The `target`, a suite that can be imported, and the `folder` of its cassette.
    """
    suite: Bench = load(Target(*job["target"]))()
    suite.setup_method()
    own, suite.folder = suite.folder, Path(job["folder"])
    try:
        with suite.replay():
            texts = [suite.says(shape, suite.subject(), QUESTION) for shape in suite.shapes]
    finally:
        suite.folder = own
        suite.teardown_method()
    sys.stdout.write(f"\n{json.dumps(texts)}\n")
