"""The output of commands: text for people, JSON for programs."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenttape_core.errors import counted

if TYPE_CHECKING:
    from rich.tree import Tree

Function = TypeVar("Function", bound=Callable[..., Any])
Item = TypeVar("Item")

_WIDE = 200  # the width of output that goes to no terminal: a file has room

_PARTS = 100_000  # the parts of JSON that are printed together

_UNUSUAL = re.compile(r"[^\n -~]")  # characters that may have to be escaped

_PLAIN = str.maketrans("━─◆•…", "=-*..")  # replacements for an encoding that lacks these characters


def cli_command(example: str, cls: type[click.Command] = click.Command) -> Callable[[Function], click.Command]:
    """Make a command from a function, with the option `--json` and an example below its help."""

    def made(function: Function) -> click.Command:
        as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
        command = click.command(cls=cls, epilog=f"Example: {example}", no_args_is_help=False)
        return command(as_json(function))

    return made


def progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """Yield items, and show the progress on standard error if that is a terminal and `--json` was not given."""
    if len(items) <= 1:
        yield from items
        return
    with progress_bar(len(items), label) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def progress_bar(total: int | None, label: str) -> Iterator[Callable[[], None]]:
    """Show the progress of a block, under the conditions of `progress`.

    `total`, the expected number of steps, may turn out greater. Yields a function to call after each step, from any
    thread.
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
            # Never full while the block runs: when it has ended, the bar is gone.
            shown.update(task.id, advance=1, total=max(total or 0, task.completed + 2))

        yield advance


def print_json(value: Any) -> None:
    """Print plain data. Characters that a terminal would act on, or cannot show, are escaped."""
    encoder = json.JSONEncoder(indent=2, ensure_ascii=not _speaks_unicode(), default=str)
    parts = encoder.iterencode(value)
    while text := "".join(islice(parts, _PARTS)):  # never the whole text: it may be as long as all recordings
        visible = _UNUSUAL.sub(lambda char: char[0] if char[0].isprintable() else json.dumps(char[0])[1:-1], text)
        click.echo(visible, nl=False)
    click.echo()


def never_fail_to_encode() -> None:
    """Print characters that an output stream cannot encode as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _speaks_unicode() -> bool:
    return codecs.lookup(sys.stdout.encoding or "utf-8").name.startswith("utf")


def console() -> Console:
    """Return the console for text: in colours on a terminal, unless `NO_COLOR` is set."""
    plain = not sys.stdout.isatty()
    return Console(width=_WIDE if plain else None, soft_wrap=plain, highlight=False, emoji=False, markup=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: frozenset[str] = frozenset()) -> None:
    """Print a table."""
    shown, cells = console(), [[printable(cell) for cell in row] for row in rows]
    if not shown.is_terminal and _fits(columns, cells):
        sys.stdout.writelines(f"{line}\n" for line in _aligned(columns, cells, right))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    shown.print(table)


_GAP = 2


def _widths(columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> list[int]:
    return [
        max(cell_len(column), *(row[at].cell_len for row in cells), 0) if cells else cell_len(column)
        for at, column in enumerate(columns)
    ]


def _fits(columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> bool:
    """Return whether each row is one line."""
    is_plain = not any("\n" in cell.plain or "\t" in cell.plain for row in cells for cell in row)
    return is_plain and sum(_widths(columns, cells)) + _GAP * len(columns) <= _WIDE


def _aligned(columns: Sequence[str], cells: Sequence[Sequence[Text]], right: frozenset[str]) -> Iterator[str]:
    """Yield the lines of a table as rich draws them, which for many rows takes longer than to read the cassette."""
    widths = _widths(columns, cells)
    for row in [list(columns), *([cell.plain for cell in row] for row in cells)]:
        yield (" " * _GAP).join(
            _blanks(width, text := cell.rstrip()) + text if column in right else cell + _blanks(width, cell)
            for column, cell, width in zip(columns, row, widths, strict=True)
        )


def _blanks(width: int, text: str) -> str:
    return " " * (width - cell_len(text))


def print_text(text: str, style: str = "") -> None:
    """Print a text that a stranger may have written, with control characters escaped, in a style of rich."""
    console().print(printable(text, style))


def print_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Print many lines together, each as `print_text` does. A terminal cuts off lines that are too long."""
    table = {} if _speaks_unicode() else _PLAIN
    text = Text("\n").join(printable(line.translate(table), style) for line, style in lines)
    console().print(text, no_wrap=True, overflow="crop")


def print_tree(tree: Tree) -> None:
    """Print a tree of texts.

    Without a terminal, it is drawn without rich, whose import takes longer than reading the cassette: its lines aren't
    wrapped or colored there. Its labels are what `printable` returns.
    """
    shown = console()
    if shown.is_terminal:
        shown.print(tree)
    else:
        # As rich writes it. `click.echo` takes ASCII for a mistake, and writes UTF-8.
        sys.stdout.writelines(f"{line}\n" for line in _drawn(tree))


_GUIDES = {True: ("├── ", "│   ", "└── ", "    "), False: ("+-- ", "|   ", "`-- ", "    ")}
"""The line-drawing parts of a tree, with or without non-ASCII characters: of a branch, next to it, of the last, below
it."""


def _drawn(tree: Tree) -> Iterator[str]:
    """Yield the lines of a tree as rich draws them."""
    branch, beside, last, below = _GUIDES[_speaks_unicode()]
    waiting = [(tree, "", "")]
    while waiting:
        node, lead, under = waiting.pop()
        first, *further = str(node.label).expandtabs().split("\n")
        yield lead + first
        yield from (under + line for line in further)
        ends = (last, below)
        for child in reversed(node.children):
            waiting.append((child, under + ends[0], under + ends[1]))
            ends = (branch, beside)


def printable(text: str, style: str = "") -> Text:
    """Return a text with visible control characters."""
    if text.isprintable():
        return Text(text, style)
    return Text("".join(char if char in "\n\t" or char.isprintable() else _escaped(char) for char in text), style)


def unread(count: int, done: str = "read") -> str:
    """Return the end of a summary that leaves out cassettes that couldn't be `done`; empty if there are none."""
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
