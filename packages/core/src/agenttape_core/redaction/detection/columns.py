"""Secrets in a table: a column of Markdown or CSV with a denied name, or the cell after one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.values import is_placeholder, satisfies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View

_AFTER_NAME = Lazy(r"""[\w-]{0,48}+[*`"']{0,3}(?:[ ]{0,32}\||[;\t]|,(?=[^\s"'])|\r?\n|\\n)""")
_LINE_BREAK = Lazy(r"\r?\n|\\n")
_CELL = Lazy(r"[^\W\d][\w .()/-]{0,40}")
"""A cell of a header: a name."""
_RULE = Lazy(r"(?=[^-]{0,8}--)[ |:+-]+")
"""The line below the header of a Markdown table."""
_DELIMITERS = ("|", "\t", ";", ",")
_TRIMMED = " \t*`\"'"
_DIGIT = Lazy(r"[0-9!@#$%^&]")
_MAX_LINE = 1_000
_MAX_ROWS = 1_000
_LEAST = 2


class Tables:
    """The tables of one text, as names in them are come across.

    Args:
        view: The text.
        names: The names that are denied.
    """

    def __init__(self, view: View, names: Names) -> None:
        self._view = view
        self._names = names
        self._body = (0, 0)

    def find(self, at: int) -> Iterator[Finding]:
        """Find the secrets in the column or in the row of a table whose name has a stem at a position."""
        text = self._view.text
        # A row of the table above is no header, or tables that repeat their header would be read once for each row.
        if not _AFTER_NAME.match(text, at) or self._body[0] <= at < self._body[1]:
            return
        start, end = _line_start(text, at), _line_end(text, at)
        delimiter = next((sign for sign in _DELIMITERS if text.find(sign, start, end) >= 0), None)
        if delimiter is None:
            return
        cells = text[start:end].split(delimiter)
        number = text.count(delimiter, start, at)
        if delimiter == "|" and not _is_ruled(text, end):
            yield from _row(self._view, start, cells, number, self._names)
        elif len(cells) >= _LEAST and all(_is_name(cell) for cell in cells if cell or delimiter != "|"):
            yield from self._below(end, delimiter, cells, number)

    def _below(self, end: int, delimiter: str, cells: list[str], number: int) -> Iterator[Finding]:
        name = cells[number].strip(_TRIMMED)
        demand = self._names.demand_of(name)
        if demand is None:
            return
        last = end
        for at, value in _column(self._view.text, end, delimiter, len(cells), number):
            last = at + len(value)
            if value and not is_placeholder(value) and satisfies(value, demand):
                yield self._view.finding(at, last, self._names.kind_of(name) or SECRET)
        self._body = (end, last)


def may_head_column(view: View, at: int) -> bool:
    """Return True if what follows a stem at a position may be the end of a cell."""
    return _AFTER_NAME.match(view.text, at) is not None


def _is_name(cell: str) -> bool:
    return _CELL.fullmatch(cell.strip(_TRIMMED)) is not None


def _is_ruled(text: str, end: int) -> bool:
    below = next(_rows(text, end), None)
    return below is not None and _RULE.fullmatch(below[1]) is not None


def _line_start(text: str, at: int) -> int:
    """Return where a line starts; a line break may be one of JSON."""
    first = max(0, at - _MAX_LINE)
    escaped = text.rfind("\\n", first, at)
    return max(text.rfind("\n", first, at) + 1, escaped + 2 if escaped >= 0 else 0, first)


def _line_end(text: str, at: int) -> int:
    found = _LINE_BREAK.search(text, at, at + _MAX_LINE)
    return found.start() if found else min(len(text), at + _MAX_LINE)


def _column(text: str, end: int, delimiter: str, width: int, number: int) -> Iterator[tuple[int, str]]:
    """Return the values below a header that ends at a position, with where each starts."""
    is_ruled = delimiter == "|"
    for start, row in itertools.islice(_rows(text, end), int(is_ruled), None):
        parts = row.split(delimiter)
        if len(parts) != width:
            return
        value = parts[number].strip(_TRIMMED)
        is_sure = is_ruled or delimiter == "\t" or _DIGIT.search(value) or " " not in row
        if is_sure:
            yield start + sum(len(part) + 1 for part in parts[:number]) + parts[number].find(value), value


def _rows(text: str, end: int) -> Iterator[tuple[int, str]]:
    """Return the lines below a position with where each starts, up to an empty one."""
    for _ in range(_MAX_ROWS):
        found = _LINE_BREAK.match(text, end)
        if found is None:
            return
        end = _line_end(text, found.end())
        row = text[found.end() : end]
        if not row.strip():
            return
        yield found.end(), row


def _row(view: View, start: int, cells: list[str], number: int, names: Names) -> Iterator[Finding]:
    """Find the secret that stands in the cell after its name."""
    if number + 1 >= len(cells):
        return
    name, value = cells[number].strip(_TRIMMED), cells[number + 1].strip(_TRIMMED)
    demand = names.demand_of(name)
    if demand is None or not _DIGIT.search(value) or " " in value or is_placeholder(value):
        return
    if satisfies(value, demand):
        at = start + sum(len(cell) + 1 for cell in cells[: number + 1]) + cells[number + 1].find(value)
        yield view.finding(at, at + len(value), names.kind_of(name) or SECRET)
