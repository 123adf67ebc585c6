"""Replay in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from unittest import SkipTest

from agenttape_core.errors import ConfigurationError
from agenttape_core.testing.bench import QUESTION, Bench
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World
from agenttape_core.tools.verify.target import Target, target_of

_PROGRAM = """\
import json, sys
job = json.loads(sys.stdin.read())
sys.path[:] = job["path"]
from agenttape_core.testing.child import main
main(job)
"""
_TIMEOUT_S = 120


class ProcessChecks(Bench):
    """The check about other processes; skipped for a class that a child process cannot import."""

    def test_another_process_finds_the_recordings(self) -> None:
        """A process with another hash seed finds the recordings, and replays the same."""
        target = self._target()
        with self.record():
            live = [self.says(shape, self.subject(World()), QUESTION) for shape in self.shapes]
        seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        served = self._replayed(target, seed)
        expect(live == served, f"recorded {live}, a process with PYTHONHASHSEED={seed} replayed {served}")

    def _target(self) -> Target:
        if type(self).__module__ == "__main__":
            raise SkipTest("is defined in a script, not in a module that a child process can import")
        try:
            return target_of(type(self))
        except ConfigurationError as error:
            raise SkipTest("is not at the top level of a module, where a child process finds it") from error

    def _replayed(self, target: Target, seed: str) -> list[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTTAPE_", "PYTEST_"))}
        job = {"target": list(target), "folder": str(self.folder), "path": [os.path.abspath(p) for p in sys.path]}  # noqa: PTH100 - keeps links
        ended = subprocess.run(  # noqa: S603 - this very interpreter, with a program of ours
            [sys.executable, "-c", _PROGRAM],
            input=json.dumps(job),
            env={**kept, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
        )
        expect(ended.returncode == 0, f"the replay in another process failed:\n{ended.stderr[-4000:]}")
        served: list[str] = json.loads(ended.stdout.splitlines()[-1])
        return served
