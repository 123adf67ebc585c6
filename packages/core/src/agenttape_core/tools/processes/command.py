"""The command that is run, or the function."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.remedy import shown_command
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage.file_kind import is_cassette
from agenttape_core.tools.processes.startup.agenttape_commands import FOLDER, RUN, label_of, why_deaf
from agenttape_core.tools.target import target_of

_FUNCTION = re.compile(r"[\w./\\-]+:[A-Za-z_][\w.]*")
_PYTHONS = ("python", "pypy")


class Command(NamedTuple):
    """A command to run."""

    given: tuple[str, ...]  # the words of the user
    words: tuple[str, ...]  # those that are run: the same, unless they name a function
    session: str = ""  # the module whose import opens the session of its process; by default the first that needs one

    @property
    def name(self) -> str:
        """The default name of its cassette: the program or function it runs."""
        if self.given != self.words:
            place, _, function = self.given[0].rpartition(":")
            return f"{Path(place).name.removesuffix('.py')}.{function}"
        program = Path(self.given[0]).name
        label = label_of(self.given) if program.startswith(_PYTHONS) else program
        return label.removesuffix(".py")

    def told(self, subcommand: str, cassette: str) -> str:
        """Return the command line that runs it under a command of `agenttape`, as a message shows it."""
        between = "" if self.given != self.words else "-- "
        return f"agenttape {subcommand} --cassette {shlex.quote(cassette)} {between}{shown_command(self.given)}"


def refuse_cassette(words: Sequence[str]) -> None:
    """Refuse a cassette in place of a command, or of the first test, with a `ConfigurationError`."""
    first = next(iter(words), "")
    if first and is_cassette(Path(first)):
        rest = shown_command([word for word in words[1:] if word != "--"]) or "COMMAND"
        raise ConfigurationError(
            f"{first} is a cassette, and no command\n"
            f"  name it with its option, and the command that it is of:  --cassette {shlex.quote(first)} -- {rest}"
        )


def command_of(given: Sequence[str]) -> Command:
    """Return the command to run.

    `given` may also name a function, `module:function` or `path/to/file.py:function`. Raises `ConfigurationError` if
    the command doesn't exist, or AgentTape can't be loaded into it.
    """
    words = tuple(given)
    if len(words) == 1 and _FUNCTION.fullmatch(words[0]) and shutil.which(words[0]) is None:
        target_of(words[0])
        return Command(words, (sys.executable, "-m", "agenttape_core.tools.processes.run_api", words[0]))
    if shutil.which(words[0]) is None:
        refuse_cassette(words)
        raise ConfigurationError(
            f"there is no command {words[0]}\n  name a program, as on the command line after --, or a function: "
            "module:function or path/to/file.py:function"
        )
    if reason := why_deaf(words, {**os.environ, RUN: FOLDER, "PYTHONPATH": FOLDER}):
        raise ConfigurationError(f"{words[0]} would run without AgentTape: {reason}\n  leave that out")
    return Command(words, words)
