"""Running the command itself: its signals are its own, and so is its exit code."""

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
from agenttape_core.tools.processes.run_folder import Account, Papers
from agenttape_core.tools.processes.startup.agenttape_startup import ADDRESS, FOLDER, RUN

_STDERR = 2
_PATIENCE, _PAUSE = 5.0, 0.02
"""How long the processes that a command leaves behind are waited for, and how often they are looked at; seconds."""
_GRACE = 0.5
"""Seconds after which a termination is handed on: who terminates a whole group has told the command already, and many
servers take a second one for an order not to end well."""
_KILLED = 128
"""What shells add to the number of the signal that ended a command."""


def driven(command: Sequence[str], folder: Path, *, extra: Mapping[str, str], apart: bool) -> int:
    """Run a command to its end, and return its exit code.

    An interruption is for the command: it gets it from the terminal as well, and this waits for what it makes of it.
    A termination is handed on to it.

    Args:
        command: Its words.
        folder: That of the run.
        extra: Variables that it gets besides.
        apart: Whether what it writes to the standard output is to go to the standard error.

    Raises:
        ConfigurationError: It cannot be started.
    """
    children: list[subprocess.Popen[bytes]] = []
    with _handed_on(children):
        try:
            child = subprocess.Popen(  # noqa: S603 - the very command that the user has asked for
                list(command), env=_environment(folder, extra), stdout=_STDERR if apart else None
            )
        except OSError as error:
            raise ConfigurationError(f"cannot start {command[0]}: {error.strerror or error}") from None
        children.append(child)
        code = child.wait()
    return _KILLED - code if code < 0 else code


def _environment(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != ADDRESS}
    paths = [FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, **extra, RUN: str(folder), "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def _handed_on(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """While inside, signals are for the children."""

    def leave(number: int, frame: Any) -> None:
        pass

    def hand_on(number: int, frame: Any) -> None:  # noqa: ARG001 - the signature of handlers
        for child in children:
            later = threading.Timer(_GRACE, child.send_signal, (number,))
            later.daemon = True
            later.start()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Not SIG_IGN, which a program that is started would inherit; and what is ignored already is for it, too.
    handlers = {signal.SIGINT: leave, signal.SIGTERM: hand_on}
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def settled(papers: Papers) -> list[Account]:
    """Return what the processes of a command told, once those have ended that it left behind and that are about to."""
    deadline = time.monotonic() + _PATIENCE
    accounts = papers.accounts()
    while any(account.state == "open" and _lives(account.pid) for account in accounts) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        accounts = papers.accounts()
    return accounts


def _lives(pid: int) -> bool:
    if sys.platform == "win32":  # where asking a process is ending it
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
