"""Secrets in rows that SQL adds to a table: `INSERT INTO users (name, password) VALUES ('bob', 'x')`, and dumps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.names import Demand, words_of
from agenttape_core.redaction.detection.values import is_placeholder, satisfies
from agenttape_core.redaction.detection.views import places

if TYPE_CHECKING:
    import re
    from collections.abc import Generator, Iterator, Mapping

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View

INTO = b" into"
COPY = b" from stdin"
_VERBS = (b"insert", b"replace", b"ignore")
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
_LINE = Lazy(r"[^\r\n]*")
_BEFORE_STDIN = 2_300
_SIGN = Lazy(r"[0-9!@#$%^&*?]")
_OF_WORDS = frozenset({"token", "tokens", "key", "keys", "cookie", "cookies"})


class Column(NamedTuple):
    """A column of which the name is denied.

    Args:
        kind: The kind of its values.
        demand: What a value must be to be a secret.
        is_of_words: Whether a word is no secret: a table of tokens is one of a language, as often as not.
    """

    kind: str
    demand: Demand
    is_of_words: bool

    def holds(self, value: str) -> bool:
        """Return True if a value in it is a secret."""
        if is_placeholder(value) or (self.is_of_words and not _SIGN.search(value)):
            return False
        return satisfies(value, self.demand)


def find_inserted(view: View, names: Names) -> Iterator[Finding]:
    """Find the values in columns whose names are denied."""
    if b"'" in view.raw or b'"' in view.raw:
        # The rows of one end where the next begins, or texts that never close a bracket would be read again and again.
        heads = [head for head in map(partial(_insert, view), places(view.low, INTO)) if head]
        ends = [head.start() for head in heads[1:]] + [len(view.text)]
        for head, end in zip(heads, ends, strict=False):
            if columns := _denied(head["columns"], names):
                yield from _in_rows(view, head.end(), end, columns)
    done = 0
    for at in places(view.low, COPY) if b"\t" in view.raw else ():
        start = view.low.rfind(b"copy ", max(done, at - _BEFORE_STDIN), at)
        copied = _COPY.match(view.text[start:at]) if start >= done else None
        if copied and (columns := _denied(copied["columns"], names)):
            done = yield from _in_lines(view, at, columns)


def _insert(view: View, at: int) -> re.Match[str] | None:
    return _INSERT.match(view.text, at) if view.low.endswith(_VERBS, 0, at) else None


def _denied(columns: str, names: Names) -> dict[int, Column]:
    """Return the columns with denied names, by their numbers."""
    found = {}
    for number, column in enumerate(columns.split(",")):
        name = column.replace("\\n", " ").strip(' \t\r\n"`[]\\')
        if (demand := names.demand_of(name)) is not None:
            kind = names.kind_of(name) or SECRET
            found[number] = Column(kind, demand, kind == SECRET and words_of(name)[-1] in _OF_WORDS)
    return found


def _in_rows(view: View, at: int, end: int, columns: Mapping[int, Column]) -> Iterator[Finding]:
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


def _in_lines(view: View, at: int, columns: Mapping[int, Column]) -> Generator[Finding, None, int]:
    r"""Find the secrets in the lines of a dump of PostgreSQL up to the end, which is returned.

    Tabs part their cells, and `\\.` ends them.
    """
    while start := view.text.find("\n", at) + 1:
        line = _LINE.match(view.text, start)
        if line is None or "\t" not in line[0]:
            break
        at = line.end()
        cells = line[0].split("\t")
        for number, column in columns.items():
            if number < len(cells) and (cell := cells[number]) != "\\N" and column.holds(cell):
                first = start + sum(len(before) + 1 for before in cells[:number])
                yield view.finding(first, first + len(cell), column.kind)
    return at
