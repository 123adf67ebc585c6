"""Set the hash seed of a command that runs a program in its own process to the recorded one.

Python draws it at its start (https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED), so a process with
another one ends, and the command starts again in its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

_COMMAND = "from agenttape_core.cli import main; main()"


class AnotherSeedError(Exception):
    """The command has to start again, with another hash seed. `main` catches it; no other code sees it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed


class _Process:
    begins_anew = False  # true in the command's own process


def is_of_the_command() -> None:
    """Note that this process is the one of the command."""
    _Process.begins_anew = True


def pin_hash_seed(cassette: str | Path) -> None:
    """Continue only with the hash seed of a recording, if that is known and this process may start again.

    Raises `AnotherSeedError` if the command has to start again, and `CassetteError` if the cassette cannot be read.
    """
    if not _Process.begins_anew:
        return
    from agenttape_core.session.hash_seed import hash_seed  # most commands need none of it
    from agenttape_core.storage import open_cassette

    recorded = open_cassette(cassette).preface.volatile.hash_seed
    if recorded is not None and recorded != hash_seed():
        raise AnotherSeedError(recorded)


def command_line(words: Sequence[str]) -> list[str]:
    """Return what starts the command with some words in another process of this Python."""
    return [sys.executable, "-P", "-c", _COMMAND, *words]  # -P: no module of the folder stands for one of ours


def begin_anew(seed: int, words: Sequence[str]) -> NoReturn:
    """Put the command into the place of this process, with a hash seed."""
    from agenttape_core.schema import HASH_SEED

    sys.stdout.flush()
    sys.stderr.flush()
    command = command_line(words)
    environment = {**os.environ, HASH_SEED: str(seed)}
    if os.name == "nt":  # where a process that takes the place of another one is a child of the shell
        sys.exit(subprocess.call(command, env=environment))  # noqa: S603 - the command itself
    os.execve(sys.executable, command, environment)  # noqa: S606 - likewise
