"""`agenttape timeline`: when each call ran."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.cells import cell_len, set_cell_size

from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import console, print_json, print_lines, printable, verb
from agenttape_core.tools.reading.timeline import Row, Timeline, timeline_of

_BAR, _LABEL, _NUMBERS = 60, 44, 32
"""The widest that a bar and a label are, and what the numbers take, in columns."""
_CALL, _STEP, _FIRST, _CHUNK = "━", "─", "◆", "•"
_LEGEND = f"{_CALL} a call   {_STEP} a step   {_FIRST} its first chunk   {_CHUNK} more chunks   ! it raised"


@verb("agenttape timeline cassettes/weather.yaml")
@click.argument("path", type=click.Path())
def timeline(path: str, *, as_json: bool) -> None:
    """Show when each call ran, relative to the first: bars on one scale, so that parallel calls lie below each other.

    Steps are rows around the calls that they made. The column "first" is how long the first chunk of a stream took.
    """
    found = found_one(path)
    told = timeline_of(found.open())
    if as_json:
        print_json({"path": found.shown, **told.to_dict()})
        return
    _show(told)


def _show(told: Timeline) -> None:
    columns = max(_NUMBERS, console().width - _NUMBERS)
    widest, width = min(_LABEL, columns // 2), min(_BAR, columns // 2)
    labels = [_label(row, widest) for row in told.rows]
    label = max(map(cell_len, labels), default=0)
    # A table of rich measures each cell again and again; here all widths are known.
    lines = [(_line(("call", "start", "took", "first", f"0 … {_ms(told.total_ms)}"), label), "bold")]
    for row, name in zip(told.rows, labels, strict=True):
        first = _ms(row.chunks_ms[0]) if row.chunks_ms else ""
        start = f"{'' if row.is_measured else '~'}{_ms(row.start_ms)}"
        cells = (name, start, _ms(row.duration_ms), first, bar_of(row, told.total_ms, width))
        lines.append((_line(cells, label), "red" if row.has_failed else "" if row.word == "interaction" else "dim"))
    lines += [(line, "dim") for line in (_LEGEND, *_summary(told))]
    print_lines(lines)


def _line(cells: Sequence[str], label: int) -> str:
    name, start, took, first, bar = cells
    return f"{set_cell_size(name, label)}  {start:>8}  {took:>8}  {first:>8}  {bar}".rstrip()


def bar_of(row: Row, total_ms: float, width: int) -> str:
    """Return a row as a bar.

    Args:
        row: The row.
        total_ms: What the whole width stands for.
        width: How many columns there are.
    """
    cells = [" "] * width
    first, last = _column(row.start_ms, total_ms, width), _column(row.end_ms, total_ms, width)
    cells[first : last + 1] = [_CALL if row.word == "interaction" else _STEP] * (last + 1 - first)
    for place, offset in reversed(list(enumerate(row.chunks_ms))):
        cells[_column(row.start_ms + offset, total_ms, width)] = _CHUNK if place else _FIRST
    return "".join(cells).rstrip()


def _column(ms: float, total_ms: float, width: int) -> int:
    return min(width - 1, max(0, int(ms / total_ms * width))) if total_ms else 0


def _label(row: Row, width: int) -> str:
    number = f"{row.number} " if row.word == "interaction" else ""
    text = f"{'  ' * row.depth}{number}{row.kind} {row.label}" + (" !" if row.has_failed else "")
    text = printable(text).plain
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def _ms(ms: float) -> str:
    if ms < 10:  # noqa: PLR2004 - one place behind the point as long as there is one before it
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"  # noqa: PLR2004 - likewise


def _summary(told: Timeline) -> list[str]:
    calls = told.calls
    took = sum(row.duration_ms for row in calls)
    measured = f", at most {told.most_at_once} at once" if told.most_at_once else ""
    lines = [f"calls {len(calls)}{measured}; {_ms(took)} in calls, {_ms(told.total_ms)} in all"]
    if told.guessed:
        lines.append(
            f"~ when {told.guessed} of them began was not recorded: it is taken to be when the step around it did, "
            "or when the call before had ended"
        )
    return lines
