"""Child processes: each in a group of its own, none of which outlives the block."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Self

_GRACE_S = 5.0
"""Seconds to wait for the pipes of a killed group: a process that left the group may hold them open."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """The end of a child process.

    Args:
        report: The bytes that it wrote to its own descriptor.
        stdout: The bytes on its standard output.
        stderr: The bytes on its standard error.
        code: The exit code, negative for a signal; `None` if it was killed because its time was over.
    """

    report: bytes
    stdout: bytes
    stderr: bytes
    code: int | None


class Children:
    """Runs child processes, from several threads if asked. When the block ends, those that still run are killed."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            for child in self._running:
                _kill(child)

    def run(
        self, command: Sequence[str], *, stdin: bytes, environment: Mapping[str, str], folder: Path, timeout: float
    ) -> ChildResult:
        """Run a child to its end.

        Args:
            command: The program and its arguments; the number of the descriptor for its report is added.
            stdin: The bytes for its standard input.
            environment: All of its variables.
            folder: Its working directory.
            timeout: Seconds after which it is killed, with all processes that it started.
        """
        reading, writing = os.pipe()
        with open(reading, "rb") as channel:  # noqa: PTH123 - a descriptor, not a path
            try:
                child = self._start([*command, str(writing)], environment, folder, writing)
            finally:
                os.close(writing)
            report: Future[bytes] = Future()
            Thread(target=lambda: report.set_result(channel.read()), daemon=True).start()
            try:
                stdout, stderr, in_time = _communicate(child, stdin, timeout)
                return ChildResult(_read(report), stdout, stderr, child.returncode if in_time else None)
            finally:
                with self._lock:
                    self._running.discard(child)

    def _start(
        self, command: list[str], environment: Mapping[str, str], folder: Path, descriptor: int
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise InterruptedError("the verification was given up")
            child = subprocess.Popen(  # noqa: S603 - this very interpreter, with arguments of ours
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=folder,
                pass_fds=[descriptor],
                start_new_session=True,  # so that it can be killed with all that it started
            )
            self._running.add(child)
            return child


def _read(report: Future[bytes]) -> bytes:
    """Return the report of a child, unless a process that left its group keeps the pipe open."""
    try:
        return report.result(_GRACE_S)
    except TimeoutError:
        return b""


def _communicate(child: subprocess.Popen[bytes], stdin: bytes, timeout: float) -> tuple[bytes, bytes, bool]:
    """Return what a child wrote, and whether it ended in time."""
    try:
        return *child.communicate(stdin, timeout), True
    except subprocess.TimeoutExpired:
        _kill(child)
    try:
        return *child.communicate(timeout=_GRACE_S), False
    except subprocess.TimeoutExpired as still:
        return still.stdout or b"", still.stderr or b"", False


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it ended by itself
        os.killpg(child.pid, signal.SIGKILL)
