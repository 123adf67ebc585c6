"""Secrets in fields that have names: of pages, of rows of SQL, and of columns of Markdown and CSV.

`<input value=x name=password>`, `INSERT INTO users (name, password) VALUES ('bob', 'x')`.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.detection.names import Demand, words_of
from agenttape_core.redaction.detection.values import is_placeholder, satisfies
from agenttape_core.redaction.detection.views import VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View


_TAGS = (b"<input", b"<meta", b"<param")
_INTO, _COPY_FROM = b" into", b" from stdin"
_VERBS = (b"insert", b"replace", b"ignore")
_OF_WORDS = {b"stdin": _COPY_FROM, **{tag[1:]: tag for tag in _TAGS}}
"""The literals to look for, by a word of each."""


def _read(word: bytes) -> bytes | None:
    """Return the literal to look for where a word is."""
    small = word.lower()
    return _INTO if small.endswith(_VERBS) else _OF_WORDS.get(small)


_LITERALS = VOCABULARY.add(_read, _OF_WORDS, _VERBS)


_ATTRIBUTE = Lazy(
    r"""(?x) (?:[\s/]|\\{1,7}[nrt]){0,64}+ (?P<name>[A-Za-z][\w:.-]{0,40}+)
    (?:[ ]{0,4}=[ ]{0,4} (?:(?P<quote>\\{0,7}["'])(?P<quoted>(?:(?!(?P=quote))[^<>]){0,4096}+)(?P=quote)
      |(?P<bare>[^\s"'<>=`\\]{1,4096}+)))?"""
)
"""An attribute of a tag (HTML, 13.1.2.3), also within a text of JSON."""
_CALLED = frozenset({"name", "id", "property", "autocomplete"})
_GIVEN = frozenset({"value", "content"})
_MOST_ATTRIBUTES = 40


def find_tags(view: View, names: Names) -> Iterator[Finding]:
    """Find the values of fields of passwords, and of fields whose names are denied."""
    met = [each for each in view.met[_LITERALS] if each.meaning in _TAGS]
    for end in sorted({at + len(each.meaning) for each in met for at in each.places(view.low, each.meaning)}):
        yield from _of_tag(view, end, names)


def _of_tag(view: View, at: int, names: Names) -> Iterator[Finding]:
    text, values, called, is_password = view.text, [], [], False
    for _ in range(_MOST_ATTRIBUTES):
        attribute = _ATTRIBUTE.match(text, at)
        if attribute is None:
            break
        at = attribute.end()
        name = attribute["name"].lower()
        group = "quoted" if attribute["quote"] else "bare"
        if attribute[group] is None:
            continue
        if name in _GIVEN:
            values.append(attribute.span(group))
        elif name in _CALLED:
            called.append(attribute[group])
        is_password |= name == "type" and attribute[group].lower() == "password"
    demands = [demand for demand in map(names.demand_of, called) if demand is not None]
    for start, end in values:
        value = text[start:end]
        if not is_placeholder(value) and (is_password or any(satisfies(value, demand) for demand in demands)):
            yield view.finding(start, end, SECRET)


_BLANK = r"(?:\s|\\[nrt])"
_TABLE = (
    rf"""{_BLANK}{{1,8}}[\w.\"'`\[\]\\$-]{{1,128}}{_BLANK}{{0,8}}\((?P<columns>[^()']{{1,2000}})\){_BLANK}{{0,8}}"""
)
_INSERT = Lazy(rf" (?i:into){_TABLE}(?:(?i:values?){_BLANK}{{0,8}})(?=\()")
_COPY = Lazy(rf"(?i:copy){_TABLE}\Z")
_PIECE = Lazy(
    r"""(?P<quote>\\{0,7}["'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\\])|(?P=quote)(?P=quote)){0,4096}+)(?P=quote)"""
    r"""|[(),]|(?:\s|\\[nrt]){1,64}|[^(),"'\\\s;]{1,256}"""
)
"""A string, a sign, a blank, or something else in a row; a quote is doubled within a string, or escaped."""
_BEFORE_STDIN = 2_300
_SIGN = Lazy(r"[0-9!@#$%^&]")
_WORDS_OF_LANGUAGES = frozenset((word,) for word in ("token", "tokens", "key", "keys", "cookie", "cookies"))


class _Column(NamedTuple):
    """A column whose name is denied, the kind of its values, and the demand on them.

    A word isn't a secret in a column that `is_of_words`: a table of tokens is often one of a language.
    """

    kind: str
    demand: Demand
    is_of_words: bool

    @classmethod
    def of(cls, name: str, names: Names) -> _Column | None:
        """Return a column by its name."""
        demand = names.demand_of(name)
        if demand is None:
            return None
        kind = names.kind_of(name) or SECRET
        return cls(kind, demand, is_of_words=kind == SECRET and words_of(name) in _WORDS_OF_LANGUAGES)

    def holds(self, value: str) -> bool:
        """Return True if a value in it is a secret."""
        if is_placeholder(value) or (self.is_of_words and not _SIGN.search(value)):
            return False
        return satisfies(value, self.demand)


def find_inserted(view: View, names: Names) -> Iterator[Finding]:
    """Find the values in columns whose names are denied."""
    starts = [(each.meaning, at) for each in view.met[_LITERALS] for at in each.places(view.low, each.meaning)]
    into = [at for literal, at in starts if literal == _INTO and view.low.endswith(_VERBS, 0, at)]
    # The rows of one end where the next begins, or texts that never close a bracket would be read again and again.
    heads = [head for at in sorted(set(into)) if (head := _INSERT.match(view.text, at))]
    ends = [head.start() for head in heads[1:]] + [len(view.text)]
    for head, end in zip(heads, ends, strict=False):
        if columns := _denied(head["columns"], names):
            yield from _in_rows(view, head.end(), end, columns)
    done = 0
    for at in sorted({at for literal, at in starts if literal == _COPY_FROM}):
        start = view.low.rfind(b"copy ", max(done, at - _BEFORE_STDIN), at)
        copied = _COPY.match(view.text[start:at]) if start >= done else None
        columns = _denied(copied["columns"], names) if copied else {}
        if not copied or not columns:
            continue
        block = _block(view.text, _line_end(view.text, at), "\t", copied["columns"].count(",") + 1)
        done = block.last
        for number, column in columns.items():
            for first, value in _values(zip(block.starts, block.rows, strict=True), "\t", number):
                if value != "\\N" and column.holds(value):
                    yield view.finding(first, first + len(value), column.kind)


def _denied(columns: str, names: Names) -> dict[int, _Column]:
    """Return the columns with denied names, by their numbers."""
    called = (name.replace("\\n", " ").strip(' \t\r\n"`[]\\') for name in columns.split(","))
    return {number: found for number, name in enumerate(called) if (found := _Column.of(name, names))}


def _in_rows(view: View, at: int, end: int, columns: Mapping[int, _Column]) -> Iterator[Finding]:
    """Find the secrets in `(…), (…)`; of a function, its first string is the value: `crypt('x', gen_salt('bf'))`."""
    depth = number = 0
    is_met = False
    while piece := _PIECE.match(view.text, at, end):
        at, sign = piece.end(), piece[0]
        if sign == "(":
            depth += 1
            number, is_met = (0, False) if depth == 1 else (number, is_met)
        elif sign == ")":
            depth -= 1
        elif sign == "," and depth == 1:
            number, is_met = number + 1, False
        elif piece["quote"] and depth and number in columns and not is_met:
            is_met = True
            if columns[number].holds(piece["quoted"]):
                yield view.finding(*piece.span("quoted"), columns[number].kind)
        elif depth == 0 and sign.strip() and sign != ",":
            return


_AFTER_NAME = Lazy(r"""[\w-]{0,48}+[*`"']{0,3}(?:[ ]{0,32}(?:\||\r?\n|\\n)|[;\t]|,(?=[^\s"']))""")
_LINE_BREAK = Lazy(r"\r?\n|\\n")
_CELL = Lazy(r"[^\W\d][\w .()/-]{0,40}")
"""A cell of a header: a name."""
_RULE = Lazy(r"(?=[^-]{0,8}--)[ |:+-]+")
"""The line below the header of a Markdown table."""
_DELIMITERS = ("|", "\t", ";", ",")
_TRIMMED = " \t*`\"'"
_MAX_LINE = 1_000
_MAX_UNSURE = 1_000
"""A column ends after so many rows that may be prose, as each of them may be a header with such rows below it."""
_LEAST = 2


class Tables:
    """The tables of one text, as names in them are met."""

    def __init__(self, view: View, names: Names) -> None:
        self._view = view
        self._names = names
        self._body = (0, 0)
        self._blocks: dict[str, _Block] = {}  # the last one of each delimiter

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
        found: list[Finding] = []
        is_head = len(cells) >= _LEAST and all(
            _is_name(cell) for cell in cells if cell.strip(_TRIMMED) or delimiter != "|"
        )
        if is_head and (delimiter != "|" or _is_ruled(text, end)):
            found = list(self._below(end, delimiter, cells, number))
        yield from found or (_row(self._view, start, cells, number, self._names) if delimiter == "|" else ())

    def _below(self, end: int, delimiter: str, cells: list[str], number: int) -> Iterator[Finding]:
        column = _Column.of(cells[number].strip(_TRIMMED), self._names)
        if column is None:
            return
        last = end
        for at, value in _values(self._rows_below(end, delimiter, len(cells)), delimiter, number):
            last = at + len(value)
            if column.holds(value):
                yield self._view.finding(at, last, column.kind)
        self._body = (end, last)

    def _rows_below(self, end: int, delimiter: str, width: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below a header with where each starts; they are split once for all their headers."""
        block = self._blocks.get(delimiter)
        if block is None or not block.end <= end <= block.last:
            block = self._blocks[delimiter] = _block(self._view.text, end, delimiter, width)
        is_inside, is_ruled = end > block.end, delimiter == "|"
        first = bisect_right(block.starts, end) + (is_inside and is_ruled)
        return zip(block.starts[first:], block.rows[first:], strict=True)


class _Block(NamedTuple):
    """The rows of a table and where each starts."""

    end: int  # of the header
    last: int  # where the last row starts
    starts: list[int]
    rows: list[list[str]]


def _block(text: str, end: int, delimiter: str, width: int) -> _Block:
    starts, rows = [], []
    for start, row in itertools.islice(_rows(text, end), int(delimiter == "|"), None):
        cells = row.split(delimiter)
        if len(cells) != width:
            break
        starts.append(start)
        rows.append(cells)
    return _Block(end, starts[-1] if starts else end, starts, rows)


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


def _values(rows: Iterable[tuple[int, list[str]]], delimiter: str, number: int) -> Iterator[tuple[int, str]]:
    """Yield the values of a column, with where each starts."""
    unsure = 0
    for start, cells in rows:
        value = cells[number].strip(_TRIMMED)
        if delimiter in "|\t" or _SIGN.search(value) or not any(" " in cell for cell in cells):
            unsure = 0
            yield start + sum(len(cell) + 1 for cell in cells[:number]) + cells[number].find(value), value
        elif (unsure := unsure + 1) > _MAX_UNSURE:
            return


def _rows(text: str, end: int) -> Iterator[tuple[int, str]]:
    """Yield the lines below a position with where each starts, up to an empty one."""
    while found := _LINE_BREAK.match(text, end):
        end = _line_end(text, found.end())
        row = text[found.end() : end]
        if not row.strip():
            return
        yield found.end(), row


def _row(view: View, start: int, cells: list[str], number: int, names: Names) -> Iterator[Finding]:
    """Find the secret that stands in the cell after its name."""
    if number + 1 >= len(cells):
        return
    value, column = cells[number + 1].strip(_TRIMMED), _Column.of(cells[number].strip(_TRIMMED), names)
    if column and _SIGN.search(value) and " " not in value and column.holds(value):
        at = start + sum(len(cell) + 1 for cell in cells[: number + 1]) + cells[number + 1].find(value)
        yield view.finding(at, at + len(value), column.kind)
