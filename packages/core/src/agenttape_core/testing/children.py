"""A child process with another hash seed, which replays the cassettes of suites one after another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Any, Self

from agenttape_core.testing.child import ANSWER
from agenttape_core.tools.target import Target

_PROGRAM = """\
import json, sys
first = sys.stdin.readline()
sys.path[:] = json.loads(first)["path"]
from agenttape_core.testing.child import main
main(first)
"""
_TIMEOUT_S = 120


class Child:
    """A child process: started with the first replay, and again after one that failed; it ends with the block.

    Args:
        seed: Its `PYTHONHASHSEED`.
    """

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - see `__exit__`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def replay(self, target: Target, folder: Path) -> list[str]:
        """Replay the questions of a suite in the child, and return the texts of the answers.

        Args:
            target: The suite.
            folder: The folder of its cassettes.

        Raises:
            AssertionError: If the replay fails, or takes more than two minutes.
        """
        path = [os.path.abspath(each) for each in sys.path]  # noqa: PTH100 - keeps links
        job = {"target": list(target), "folder": str(folder), "path": path, "working": str(Path.cwd())}
        process = self._process = self._process or self._started()
        limit = Timer(_TIMEOUT_S, process.kill)
        limit.start()
        try:
            answer = _answer(process, json.dumps(job))
        finally:
            limit.cancel()
        if answer is None:
            self._end()
            self._errors.seek(0)
            raise AssertionError(f"the replay in another process failed:\n{self._errors.read()[-4000:]}")
        served: list[str] = json.loads(answer)
        return served

    def _started(self) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTTAPE_", "PYTEST_"))}
        self._errors.seek(0)
        self._errors.truncate()
        return subprocess.Popen(  # noqa: S603 - this very interpreter, with a program of ours
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**kept, "PYTHONHASHSEED": self.seed, "PYTHONIOENCODING": "utf-8"},
            encoding="utf-8",
        )

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()  # between two replays it holds nothing
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.wait(_TIMEOUT_S)
        self._process = None


def _answer(process: subprocess.Popen[str], job: str) -> str | None:
    """Hand a job to a process, and return its answer, or `None` if the process ends without one."""
    asked: Any = process.stdin
    told: Any = process.stdout
    try:
        asked.write(f"{job}\n")
        asked.flush()
    except OSError:
        return None
    for line in told:
        if line.startswith(ANSWER):
            return str(line.removeprefix(ANSWER))
    return None
