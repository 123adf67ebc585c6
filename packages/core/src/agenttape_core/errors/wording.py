"""Paths, texts and numbers as the messages of errors say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def shown_path(path: Path | str) -> str:
    """Return a path or URL for a message: relative to the working directory, if it is below that."""
    from pathlib import Path  # late, as `git diff` imports the errors in a process for each side of each file

    try:
        here = Path.cwd()
    except OSError:  # the directory is gone
        return visible(str(path)).replace("\n", "\\n")
    full = Path(path)
    shown = str(full.relative_to(here)) if full.is_absolute() and full.is_relative_to(here) else str(path)
    return visible(shown).replace("\n", "\\n")


def visible(text: str) -> str:
    """Return a text with its control characters spelled out, as it may come from a stranger's cassette.

    A terminal would execute them, and a CI system would take a line that begins with `::` for a command. Line breaks
    and tabs stay.
    """
    if text.isprintable():
        return text
    if not text.replace("\n", "").replace("\t", "").isprintable():
        text = "".join(char if char in "\n\t" or char.isprintable() else _spelled(char) for char in text)
    return text.replace("\n::", "\n ::").replace("\n##[", "\n ##[")


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def how_to_recover(path: Path) -> str:
    """Return the command that makes a cassette of a journal; `path` is that, or the cassette it was to become."""
    import shlex

    return f"agenttape cassette recover {shlex.quote(shown_path(path))}"


def counted(count: int, noun: str) -> str:
    """Return a number of things for a message: `1 call`, `2 calls`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
