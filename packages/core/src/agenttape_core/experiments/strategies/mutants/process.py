"""The other end of the worker: requests to run a program, and the replies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agenttape_core.errors import VerificationError
from agenttape_core.experiments.strategies.mutants.edits import Mutant
from agenttape_core.experiments.strategies.mutants.facts import Facts
from agenttape_core.schema import HASH_SEED
from agenttape_core.tools.hash_seeds import with_seed

_PROGRAM = "import sys; from agenttape_core.experiments.strategies.mutants.worker import main; main(int(sys.argv[1]))"
_GRACE_S = 60.0
"""Seconds for what the worker does itself: it imports what the runs import."""


@dataclass(frozen=True, slots=True)
class Job:
    """A program whose edits are tried.

    Args:
        runner: The module that runs it.
        program: The program, as this module takes it.
        root: The folder of the project.
        live: The kinds and names of calls that are executed.
        hash_seed: The hash seed with which it was recorded, as far as it is known.
    """

    runner: str
    program: Mapping[str, Any]
    root: Path
    live: Sequence[str] = ()
    hash_seed: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run.

    Args:
        seconds: Of the clock.
        cpu: Of the processor.
    """

    seconds: float = 600.0
    cpu: float = 600.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of one run.

    Args:
        facts: The facts by the tests, or of the function.
        problem: Why nothing could be run; empty if it could.
        ended: Why the run was ended by force; empty if it ended by itself.
        is_loaded: Whether the edited file was imported.
        files: The files that hold tests.
        lines: How often each line was run, by the test and the file.
        seconds: Its duration.
        cpu: The time of the processor that it took, in seconds.
    """

    facts: Mapping[str, Facts]
    problem: str = ""
    ended: str = ""
    is_loaded: bool = True
    files: Sequence[str] = ()
    lines: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    seconds: float = 0.0
    cpu: float = 0.0


class Worker:
    """A process that runs a program again and again, each time in a process of its own.

    Args:
        job: The program.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the exit
        reading, writing = os.pipe()
        here = os.getcwd()  # noqa: PTH109 - an entry of the path is a text
        self._path = list(dict.fromkeys([here, *(os.path.join(here, one) for one in sys.path)]))  # noqa: PTH118
        self._replies = os.fdopen(reading, "rb", buffering=0)
        self._buffer = b""
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-c", _PROGRAM, str(writing)],
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
            pass_fds=[writing],
            env=_environment(job.hash_seed),
            start_new_session=True,  # so that it can be ended with all that it started
        )
        os.close(writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._replies.close()
        self._said.close()

    def run(
        self,
        tests: Sequence[str] | None = None,
        mutant: tuple[Mutant, Path, bool] | None = None,
        *,
        limits: Limits = Limits(),
        trace: bool = False,
    ) -> Reply:
        """Run the program once.

        Args:
            tests: The tests to run; by default those of the job.
            mutant: The edit, the file, and whether this holds tests.
            limits: The limits.
            trace: Whether the lines that are run are noted.

        Raises:
            VerificationError: If the worker does not answer.
        """
        request = {
            "runner": self._job.runner,
            "program": {**self._job.program, **({"tests": list(tests)} if tests is not None else {})},
            "root": str(self._job.root),
            "live": list(self._job.live),
            "path": self._path,
            "trace": trace,
            "seconds": limits.seconds,
            "cpu": limits.cpu,
            "mutant": None,
        }
        if mutant is not None:
            one, path, is_test = mutant
            edit = {"id": one.id, "file": one.file, "path": str(path), "is_test": is_test}
            request["mutant"] = edit
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is found below that there is no reply
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        plain = json.loads(self._line(limits.seconds + _GRACE_S))
        facts = {name: Facts.from_dict(one) for name, one in plain.pop("facts", {}).items()}
        return Reply(facts, **plain)

    def _line(self, seconds: float) -> bytes:
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            part = b""
            if left > 0 and select.select([self._replies], [], [], left)[0]:
                part = self._replies.read(1 << 20) or b""
            if not part:
                raise VerificationError(f"the process that runs the mutants does not answer\n{self.said()}")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def said(self) -> str:
        """Return the last lines that the runs have printed."""
        self._said.seek(0)
        return "\n".join(self._said.read().decode(errors="replace").strip().splitlines()[-20:])


def _environment(seed: int | None) -> dict[str, str]:
    others = ("AGENTTAPE_LIVE", "PYTEST_XDIST", "PYTEST_CURRENT_TEST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {HASH_SEED: "0", **kept, **with_seed(seed), "PYTHONDONTWRITEBYTECODE": "1"}
