"""Replays of one job in chosen surroundings: the folders, the processes, and how many at once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.verify.child_process import Children
from agenttape_core.experiments.verify.environment import Surroundings
from agenttape_core.experiments.verify.job import Job, command
from agenttape_core.experiments.verify.output import Output, output_of, unusable


class Replays:
    """Replays a job. A context manager: at its end no process and no folder of it is left.

    Args:
        job: What to replay.
        timeout: Seconds that one replay may take.
        jobs: How many run at the same time.
        on_replay: Called after each.
    """

    def __init__(self, job: Job, *, timeout: float, jobs: int, on_replay: Callable[[], object] | None = None) -> None:
        self.job = job
        self._on_replay = on_replay
        self._timeout = timeout
        self._jobs = jobs
        self._around = ExitStack()
        self._root: Path
        self._pool: ThreadPoolExecutor
        self._children: Children

    def __enter__(self) -> Self:
        folder = self._around.enter_context(
            tempfile.TemporaryDirectory(prefix="agenttape-", ignore_cleanup_errors=True)
        )
        self._root = Path(folder).resolve()
        self._pool = self._around.enter_context(ThreadPoolExecutor(self._jobs))
        self._children = self._around.enter_context(Children())  # ends first, so that no thread waits for a child
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._around.__exit__(exc_type, error, traceback)

    def each(self, plan: Sequence[Surroundings]) -> list[Output]:
        """Replay once in each of some surroundings, several at once.

        Raises:
            ConfigurationError: If the child cannot find the function.
        """
        return list(self._pool.map(self.once, plan))

    def once(self, surroundings: Surroundings) -> Output:
        """Replay once. The working directory is made anew, also when one of that name was used before."""
        folder = self._root / surroundings.working_directory  # an absolute one, of the project, stays what it is
        ours = folder.parent == self._root
        if ours:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        result = self._children.run(
            command(),
            stdin=self.job.stdin(surroundings),
            environment=self.job.environment(surroundings),
            folder=folder,
            timeout=self._timeout,
        )
        if self._on_replay is not None:
            self._on_replay()
        if problem := unusable(result):
            raise ConfigurationError(
                f"verify: a child process cannot load {self.job.target}: {problem}\n"
                "  it imports with the sys.path of this process; see that importing the module works on its own"
            )
        return output_of(result, folder if ours else None, self._timeout)
