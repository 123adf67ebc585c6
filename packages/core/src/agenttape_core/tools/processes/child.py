"""Run the command itself, with its own signals and its own exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.processes.run_folder import ProcessReport, RunFolder
from agenttape_core.tools.processes.startup.agenttape_startup import ADDRESS, FOLDER, OF_REPLAY, RUN

_STDERR = 2
_PATIENCE, _PAUSE = 5.0, 0.02
"""Seconds to wait for the processes that a command leaves behind, and between two looks at them."""
_GRACE = 0.5
"""Seconds after which a termination is forwarded: whoever ends a whole group has reached the command already, and many
servers take a second signal as an order to stop at once. One whose session has ended gets the first one only if it
still lives after the patience above."""
_KILLED = 128
"""The number that shells add to that of the signal which ended a command."""


def run_child(
    command: Sequence[str], folder: Path, *, extra: Mapping[str, str], apart: bool, is_replay: bool = False
) -> int:
    """Run a command to its end, and return its exit code.

    An interruption reaches the command from the terminal as well; this waits for what the command makes of it.
    A termination is forwarded to it.

    Args:
        command: Its words.
        folder: The folder of the run.
        extra: Further environment variables for it.
        apart: Whether its standard output goes to the standard error.
        is_replay: Whether it is replayed.

    Raises:
        ConfigurationError: It cannot be started.
    """
    children: list[subprocess.Popen[bytes]] = []
    with _forwarding_signals(children, RunFolder(folder)):
        try:
            child = subprocess.Popen(  # noqa: S603 - the very command that the user has asked for
                list(command), env=_environment(folder, extra, is_replay=is_replay), stdout=_STDERR if apart else None
            )
        except OSError as error:
            raise ConfigurationError(f"cannot start {command[0]}: {error.strerror or error}") from None
        children.append(child)
        code = child.wait()
    return _KILLED - code if code < 0 else code


def _environment(folder: Path, extra: Mapping[str, str], *, is_replay: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != ADDRESS}
    paths = [FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, **extra, RUN: f"{OF_REPLAY if is_replay else ''}{folder}", "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def _forwarding_signals(children: Sequence[subprocess.Popen[bytes]], run_folder: RunFolder) -> Iterator[None]:
    """Forward signals to the children inside the block."""
    forwarded: set[subprocess.Popen[bytes]] = set()

    def leave(number: int, frame: Any) -> None:
        pass

    def forward(number: int, frame: Any) -> None:  # noqa: ARG001 - the signature of handlers
        for child in children:
            is_first = child not in forwarded
            forwarded.add(child)
            later = threading.Timer(_GRACE, _end, (child, number, run_folder if is_first else None))
            later.daemon = True
            later.start()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Not SIG_IGN, which a program that is started would inherit; and what is ignored already is for it, too.
    handlers = {signal.SIGINT: leave, signal.SIGTERM: forward}
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def _end(child: subprocess.Popen[bytes], number: int, run_folder: RunFolder | None) -> None:
    """Send a child a signal, unless it ends by itself.

    Args:
        child: The child.
        number: The signal.
        run_folder: The folder of its run; `None` for somebody who does not wait for its end any longer.
    """
    deadline = time.monotonic() + _PATIENCE
    while run_folder is not None and time.monotonic() < deadline:
        if child.poll() is not None or not _is_ending(child.pid, run_folder):
            break
        time.sleep(_PAUSE)
    child.send_signal(number)  # which nobody gets who has ended


def _is_ending(pid: int, run_folder: RunFolder) -> bool:
    """Return whether a process has ended its session: Python takes it down, and a signal would kill it meanwhile."""
    return any(report.pid == pid and report.state == "ended" for report in run_folder.reports())


def settled(run_folder: RunFolder) -> list[ProcessReport]:
    """Return the reports of a command's processes, once those that it left behind have ended or taken too long."""
    deadline = time.monotonic() + _PATIENCE
    reports = run_folder.reports()
    while any(report.state == "open" and _lives(report.pid) for report in reports) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        reports = run_folder.reports()
    return reports


def _lives(pid: int) -> bool:
    if sys.platform == "win32":  # os.kill would end the process there
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
