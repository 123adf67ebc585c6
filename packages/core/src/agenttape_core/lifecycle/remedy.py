"""Remedies for a missing recording: the command that runs this very program again and records."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from agenttape_core.lazy_patterns import Lazy

_MAX_COMMAND = 200
_NO_KEY = Lazy(
    r"missing credentials|could not resolve authentication|did not find \w*api_?key|\bno api[ _-]?key"
    r"|\bapi[ _-]?key\b.{0,80}\b(?:must be|required|missing|not (?:found|set|provided))",
    re.IGNORECASE | re.DOTALL,
)
"""The words in which clients of providers refuse to be made without a key."""
_VARIABLE = Lazy(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_API_KEY\b")
NO_KEY = "no-key"  # a useless key: readers of a workflow recognize it as a dummy


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
"""Returns how to record missing calls, a line each, given whether there is a cassette already."""


def remedy_for(explicit_at: str | None) -> Remedy:
    """Return the remedy of a program that can be run again.

    `explicit_at` is the place in the code that gives the mode, which an environment variable doesn't change.
    """

    def remedy(recorded: bool) -> list[str]:
        if explicit_at is not None and not recorded:
            return [f'record it (calls the real model):  mode="once" at {explicit_at}']
        if explicit_at is not None:
            return [
                f'record everything again:  mode="record" at {explicit_at}',
                f'record only what changed:  mode="update" at {explicit_at}',
            ]
        command = _this_command()
        if not recorded:
            return [f"record it (calls the real model):  AGENTTAPE_MODE=once {command}"]
        return [
            f"record everything again:  AGENTTAPE_MODE=record {command}",
            f"record only what changed:  AGENTTAPE_MODE=update {command}",
        ]

    return remedy


def remedy_for_key(error: BaseException | None) -> str:
    """Return the advice if a provider's client couldn't be made in a replay because there was no key.

    Recording again would cost money, and not help: the client would still have no key where it's replayed. Returns a
    sentence with the variable that the error names; empty for any other error.
    """
    seen: set[int] = set()
    while isinstance(error, Exception) and id(error) not in seen:
        seen.add(id(error))
        if _NO_KEY.search(said := str(error)):
            variable = next(iter(_VARIABLE.findall(said)), "its variable")
            return f"in a replay any text will do as a key, since no call is sent: set {variable}={NO_KEY}"
        error = error.__cause__ or error.__context__
    return ""


def note_missing_key(error: Exception) -> None:
    """Add a note about replays to an error about a missing key."""
    note = f"AgentTape: {said}" if (said := remedy_for_key(error)) else ""
    if note and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _this_command() -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test:
        return f"pytest {shlex.quote(test)}"
    return shown_command([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]] if sys.orig_argv else ["python"])


def shown_command(words: Sequence[str]) -> str:
    """Return a command for a message, or a placeholder if it is long or holds a secret."""
    from agenttape_core.redaction import Redactor, new_key  # most runs show none

    command = shlex.join(words)
    plain = len(command) <= _MAX_COMMAND and "\n" not in command and not Redactor(new_key()).contains_secret(command)
    return command if plain else "<your command>"
