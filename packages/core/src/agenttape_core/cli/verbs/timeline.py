"""`agenttape timeline`: the calls of a run as bars on one scale."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.cells import cell_len, set_cell_size

from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import console, print_json, print_lines, printable, verb
from agenttape_core.tools.reading.call_tree import LEFT_OUT
from agenttape_core.tools.reading.timeline import Row, Timeline, timeline_of

_BAR, _LABEL, _NUMBERS = 60, 44, 32
"""The greatest widths of a bar and a label, and the width of the numbers, in columns."""
_CALL, _STEP, _FIRST, _CHUNK = "━", "─", "◆", "•"
_LEGEND = f"{_CALL} a call   {_STEP} a step   {_FIRST} its first chunk   {_CHUNK} more chunks   ! it raised"


@verb("agenttape timeline cassettes/weather.yaml")
@click.argument("path", type=click.Path(readable=False))
def timeline(path: str, *, as_json: bool) -> None:
    """Show when each call ran, as bars on one scale.

    Bars of parallel calls are below each other.

    The row of a step stands above the calls in it. The column "first" is the time until the first chunk of a stream.
    """
    cassette = found_one(path)
    found = timeline_of(cassette.look())
    if as_json:
        print_json({"path": cassette.shown, **found.to_dict()})
        return
    _show(found)


def _show(found: Timeline) -> None:
    columns = max(_NUMBERS, console().width - _NUMBERS)
    widest, width = min(_LABEL, columns // 2), min(_BAR, columns // 2)
    rows = [row for row in found.rows if row.kind not in LEFT_OUT]
    labels = [_label(row, widest) for row in rows]
    label = max(map(cell_len, labels), default=0)
    # Not a table of rich, which measures each cell again and again: here all widths are known.
    lines = [(_line(("call", "start", "took", "first", f"0 … {_ms(found.total_ms)}"), label), "bold")]
    for row, name in zip(rows, labels, strict=True):
        first = _ms(row.chunks_ms[0]) if row.chunks_ms else ""
        start = f"{'' if row.is_measured else '~'}{_ms(row.start_ms)}"
        cells = (name, start, _ms(row.duration_ms), first, bar_of(row, found.total_ms, width))
        lines.append((_line(cells, label), "red" if row.has_failed else "" if row.word == "interaction" else "dim"))
    lines += [(line, "dim") for line in (_LEGEND, *_summary(found))]
    print_lines(lines)


def _line(cells: Sequence[str], label: int) -> str:
    name, start, took, first, bar = cells
    return f"{set_cell_size(name, label)}  {start:>8}  {took:>8}  {first:>8}  {bar}".rstrip()


def bar_of(row: Row, total_ms: float, width: int) -> str:
    """Return the bar of a row.

    Args:
        row: The row.
        total_ms: The time that the whole width stands for.
        width: The number of columns.
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
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"  # noqa: PLR2004 - and in milliseconds as long as they can be read


def _summary(found: Timeline) -> list[str]:
    calls = found.calls
    took = sum(row.duration_ms for row in calls)
    measured = f", at most {found.most_at_once} at once" if found.most_at_once else ""
    lines = [f"calls {len(calls)}{measured}; {_ms(took)} in calls, {_ms(found.total_ms)} in all"]
    if found.guessed:
        lines.append(
            f"~ the start of {found.guessed} of them was not recorded: shown is the start of the step around it, "
            "or the end of the call before it"
        )
    return lines
