"""Remedies for a missing recording: the command that runs this very program again and records."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from agenttape_core.redaction import Redactor, new_key

_MAX_COMMAND = 200


def caller() -> str:
    """Return `file:line` of the nearest code outside this package, its integrations and `contextlib`."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to the calling frame, far cheaper than inspect.stack
    while frame.f_back is not None and (is_ours(frame) or frame.f_globals.get("__name__") == "contextlib"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame is of this package or one of its integrations."""
    return str(frame.f_globals.get("__name__", "")).startswith("agenttape_")


Remedy = Callable[[bool], list[str]]
"""Returns how to record what is missing, a line each, given whether there is a cassette already."""


def remedy_for(explicit_at: str | None) -> Remedy:
    """Return the remedy of a program that can be run again.

    Args:
        explicit_at: The place in the code that gives the mode, which an environment variable does not change.
    """

    def remedy(recorded: bool) -> list[str]:
        if explicit_at is not None and not recorded:
            return [f'record it with mode="once" at {explicit_at}']
        if explicit_at is not None:
            return [
                f'record it anew with mode="all" at {explicit_at}',
                'or execute only what has changed, with mode="update"',
            ]
        command = _this_command()
        if not recorded:
            return [f"record it:  AGENTTAPE_MODE=once {command}"]
        return [
            f"record it anew:  AGENTTAPE_MODE=all {command}",
            f"or execute only what has changed:  AGENTTAPE_MODE=update {command}",
        ]

    return remedy


def _this_command() -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test:
        return f"pytest {shlex.quote(test)}"
    return shown_command([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]] if sys.orig_argv else ["python"])


def shown_command(words: Sequence[str]) -> str:
    """Return a command for a message, or a placeholder if it is long or holds a secret.

    Args:
        words: The words of the command line.
    """
    command = shlex.join(words)
    plain = len(command) <= _MAX_COMMAND and "\n" not in command and not Redactor(new_key()).contains_secret(command)
    return command if plain else "<your command>"
