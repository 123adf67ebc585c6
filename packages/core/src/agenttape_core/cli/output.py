"""How verbs speak: as text for people, or as JSON for programs."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenttape_core.errors import counted

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")

_WIDE = 200
"""Columns where the output is no terminal: a file has room."""

_UNUSUAL = re.compile(r"[^\n -~]")
"""What may have to be escaped."""

_PLAIN = str.maketrans("━─◆•…", "=-*..")
"""What is drawn where there are no such characters."""


def verb(example: str) -> Callable[[Function], click.Command]:
    """Make a verb of a function: with `--json`, and with an example below its help.

    Args:
        example: A command line that shows it.
    """

    def made(function: Function) -> click.Command:
        as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
        command = click.command(epilog=f"Example: {example}", no_args_is_help=False)
        return command(as_json(function))

    return made


def progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """Yield items, and show on a terminal how far they are: on standard error, and never beside `--json`.

    Args:
        items: What is worked on, one after the other.
        label: What is done, such as `reading`.
    """
    if len(items) <= 1:
        yield from items
        return
    with progress_bar(len(items), label) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def progress_bar(total: int | None, label: str) -> Iterator[Callable[[], None]]:
    """Show while a block runs how far it is, where and when `progress` does.

    Args:
        total: How many steps there are, as far as that is known: there may be more. Nothing if the work has no steps.
        label: What is done.

    Yields:
        What to call after each step, from any thread.
    """
    context = click.get_current_context(silent=True)
    as_json = context is not None and context.params.get("as_json", False)
    if as_json or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress(console=Console(stderr=True, markup=False, emoji=False), transient=True) as shown:
        shown.add_task(label, total=total)
        (task,) = shown.tasks

        def advance() -> None:
            # It is full when the block has ended and not before: then it is gone.
            shown.update(task.id, advance=1, total=max(total or 0, task.completed + 2))

        yield advance


def print_json(value: Any) -> None:
    """Print plain data, in which what a terminal would act on is escaped, as is what it has no character for."""
    text = json.dumps(value, indent=2, ensure_ascii=not _speaks_unicode(), default=str)
    click.echo(_UNUSUAL.sub(lambda char: char[0] if char[0].isprintable() else json.dumps(char[0])[1:-1], text))


def never_fail_to_encode() -> None:
    """Let text that a terminal or a file has no characters for be shown as escapes, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _speaks_unicode() -> bool:
    return codecs.lookup(sys.stdout.encoding or "utf-8").name.startswith("utf")


def console() -> Console:
    """Return where text goes: in colours on a terminal, unless `NO_COLOR` is set."""
    plain = not sys.stdout.isatty()
    return Console(width=_WIDE if plain else None, soft_wrap=plain, highlight=False, emoji=False, markup=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: frozenset[str] = frozenset()) -> None:
    """Print rows below their headings.

    Args:
        columns: The headings.
        rows: The cells, as text.
        right: The headings of columns of numbers.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    console().print(table)


def print_text(text: str, style: str = "") -> None:
    """Print a text, which may be of anybody: what would move the cursor or change colours is shown, not done.

    Args:
        text: The text.
        style: How it looks, as rich names styles.
    """
    console().print(printable(text, style))


def print_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Print many lines at once, each with its style, likewise; a terminal cuts off what it has no room for.

    Args:
        lines: The lines and their styles.
    """
    table = {} if _speaks_unicode() else _PLAIN
    told = Text("\n").join(printable(line.translate(table), style) for line, style in lines)
    console().print(told, no_wrap=True, overflow="crop")


def printable(text: str, style: str = "") -> Text:
    """Return a text whose control characters are visible: a cassette may hold what a stranger wrote.

    Args:
        text: The text.
        style: How it looks, as rich names styles.
    """
    return Text("".join(char if char in "\n\t" or char.isprintable() else _escaped(char) for char in text), style)


def unread(count: int, done: str = "read") -> str:
    """Return what a summary adds about cassettes that it does not speak for.

    Args:
        count: How many there are.
        done: What could not be done with them.
    """
    return f", {counted(count, 'cassette')} could not be {done}" if count else ""


def size_of(count: float) -> str:
    """Return a number of bytes in a unit that fits."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:  # noqa: PLR2004 - the units are powers of it
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
