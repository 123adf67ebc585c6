"""Secrets below a denied name in a text: in JSON, in what Python prints of a dict or a list, and in lines of YAML.

What is on a line below is judged as if it were right after the name: `password:` and `  old: x` below it, as
`password: x`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.assigned import Assignment, closing, find_value
from agenttape_core.redaction.detection.findings import NUMBER, SECRET
from agenttape_core.redaction.detection.names import Demand
from agenttape_core.redaction.detection.values import (
    is_below,
    is_description,
    is_keyword,
    is_placeholder,
    is_told,
    is_told_number,
    reaches_down,
)
from agenttape_core.redaction.detection.views import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View


_TOKEN = Lazy(
    r"""(?:[ \t\r\n]|\\{1,7}[nrt])*+
    (?: (?P<sign>[{}\[\],:]) | [bur]{0,2}(?P<quote>\\{0,7}["'])
      | (?P<number>-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?)(?![\w.])
      | (?P<word>[A-Za-z]{4,5})(?![\w.("'\[]) )""",
    re.VERBOSE,
)
_OPENED = Lazy(r"[{\[]")
_WORDS = frozenset(["true", "false", "null", "None", "True", "False"])
_REACH = 16_384
_DEEPEST = 32


class _Leaf(NamedTuple):
    """A string or a number in a text."""

    start: int
    end: int
    quote: str
    """The quote of a string, or the one that a pseudonym of a number is put between."""
    is_number: bool = False


class _Parser:
    """Reads a value as far as it goes: the text may be cut off."""

    def __init__(self, text: str, at: int, close: str) -> None:
        self._close = close
        self._text = text
        self._limit = min(len(text), at + _REACH)
        self._is_over = False
        self.at = at

    def value(self, depth: int = 0) -> object:
        """Return a value: a dict, a list, a leaf, or `None`."""
        token = self._next()
        if token is None:
            return None
        if token["sign"] in ("{", "[") and depth < _DEEPEST:
            return self._items(depth, "}" if token["sign"] == "{" else "]")
        if token["quote"]:
            return self._string(token)
        if token["number"]:
            return _Leaf(*token.span("number"), self._close, is_number=True)
        self._is_over |= token["word"] not in _WORDS
        return None

    def _next(self) -> re.Match[str] | None:
        token = None if self._is_over else _TOKEN.match(self._text, self.at, self._limit)
        self._is_over = token is None
        self.at = token.end() if token else self.at
        return token

    def _string(self, token: re.Match[str]) -> _Leaf:
        start = token.end()
        end = min(closing(self._text, start, token["quote"]), self._limit)
        self.at = end + len(token["quote"])
        self._is_over = self.at > self._limit
        return _Leaf(start, end, token["quote"])

    def _took(self, sign: str) -> bool:
        """Return True if a sign came next, and go past it."""
        token = None if self._is_over else _TOKEN.match(self._text, self.at, self._limit)
        is_next = token is not None and token["sign"] == sign
        self.at = token.end() if token and is_next else self.at
        return is_next

    def _items(self, depth: int, end: str) -> object:
        """Return the items of a list, or those of a dict by their names, up to a sign."""
        items: dict[object, object] = {}
        while not self._is_over and not self._took(end):
            name: object = len(items)
            if end == "}":
                key = self._next()
                leaf = self._string(key) if key and key["quote"] else None
                if leaf is None or not self._took(":"):
                    self._is_over = True
                    break
                name = self._text[leaf.start : leaf.end]
            items[name] = self.value(depth + 1)
            if not self._took(","):
                self._is_over |= not self._took(end)
                break
        return items if end == "}" else list(items.values())


class Nested:
    """The dicts and lists below denied names in one text, as the names are met."""

    def __init__(self, view: View, names: Names) -> None:
        self._view = view
        self._names = names
        self._end = 0

    def find(self, found: Assignment) -> Iterator[Finding]:
        """Find the secrets in the dict or list that is assigned to a name."""
        text = self._view.text
        # What is inside another one was looked at with it, or names in names would be read again and again.
        is_variable = found.sep == "=" and not found.gap and found.name.isupper()
        if found.value < self._end or not (is_variable or (found.close and found.sep in (":", "=>"))):
            return
        if not reaches_down(found.name, found.demand) or not _OPENED.match(text, found.value):
            return
        parser = _Parser(text, found.value, found.close or '"')
        value = parser.value()
        self._end = parser.at
        yield from self._below(value, found.name, found.kind)

    def _below(self, value: object, name: str = "", kind: str | None = None, key: str = "") -> Iterator[Finding]:
        """Find the secrets in a value below a denied name, or without a kind in one that is judged by its own names."""
        if isinstance(value, _Leaf):
            yield from self._leaf(value, kind, key) if kind else ()
        elif isinstance(value, list):
            for item in value:
                yield from self._below(item, name, kind, key)
        elif isinstance(value, dict):
            plain = {inner: self._plain(item) for inner, item in value.items()}
            for inner, item in value.items():
                if self._names.demand_of(inner) is Demand.NOTHING:
                    yield from self._below(item, inner, self._names.kind_of(inner) or kind or SECRET)
                elif kind and is_below(plain, inner, name):
                    yield from self._below(item, name, kind, inner)
                else:
                    yield from self._below(item)

    def _plain(self, value: object) -> object:
        if not isinstance(value, _Leaf):
            return value
        return float(self._text(value)) if value.is_number else self._text(value)

    def _leaf(self, leaf: _Leaf, kind: str, key: str) -> Iterator[Finding]:
        text = self._text(leaf)
        if leaf.is_number:
            if not is_told_number(key, float(text)):
                yield self._view.finding(leaf.start, leaf.end, NUMBER, leaf.quote)
        elif leaf.start < leaf.end and not is_placeholder(text):
            yield self._view.finding(leaf.start, leaf.end, kind)

    def _text(self, leaf: _Leaf) -> str:
        return self._view.text[leaf.start : leaf.end]


_LINE = Lazy(
    r"""(?x) [ \t]{0,8}(?:\#[^\r\n\\]{0,200})? (?:\r?\n|\\n) (?P<indent>[ ]{0,40})(?P<items>(?:-[ ]{1,4}){0,4})
    (?:(?P<key>["']?[\w.-]{1,64}["']?):(?=[ \r\n\\]|\Z)[ ]{0,4})? (?P<value>[^\r\n\\]{0,512})"""
)
"""The rest of a line and the next one: its indentation, the marks of items of lists, a key, and a value."""
_MARGIN = Lazy(r"(?:\A|\n|\\n)(?P<margin>[ ]{0,40}(?:-[ ]{1,4}){0,4}[\"']?)\Z")
_BACK = 60
_MOST = 60


_KIND = Lazy(r"""(?P<quote>\\{0,7}["'])?kind(?(quote)(?P=quote)):[ ]{0,4}\\{0,7}["']?\Z""")
_DATA = Lazy(r"""(?P<quote>\\{0,7}["'])?\bdata(?(quote)(?P=quote)):[ ]{0,4}""")
_BREAK = Lazy(r"\r?\n|\\n")
_ENTRY = Lazy(
    r"""(?P<indent>[ ]{0,60})(?:(?P<key>["']?[\w.-]{1,253}["']?):[ ]{0,4}["']?)?"""
    r"""(?P<secret>[A-Za-z0-9+/]*+={0,2})["']?[ ]*(?=\r?\n|\\n|["']|\Z)"""
)
"""A line of data: its indentation, a key if there is one, and a value in base64, which may be a block below its key."""
_BRACES = Lazy(r"[{}]")
_MANIFEST = 8_192


def find_in_manifests(view: View) -> Iterator[Finding]:
    """Find the data of a Secret of Kubernetes, in YAML and in JSON, which is in base64: all of it is secret."""
    text = view.text
    is_met = any(word == b"Secret" for window in view.windows for word, _ in window.words)
    for at in places(view.raw, b"Secret") if is_met else ():
        kind = None if text[at + 6 : at + 7].isalnum() else _KIND.search(text, max(0, at - 30), at)
        if kind is None:
            continue
        first, last = max(0, at - _MANIFEST), min(len(text), at + _MANIFEST)
        for data in _DATA.finditer(text, first, last):
            if (data["quote"] or None) == (kind["quote"] or None):
                for start, end in _data_of(text, kind.start(), data):
                    yield view.finding(start, end, SECRET)


def _data_of(text: str, kind: int, data: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield where the values of data are, if it belongs to the same object as a kind."""
    keys = sorted((kind, data.start()))
    if not data["quote"]:
        if _is_in_one_mapping(text, *keys):
            yield from _entries(text, data.end(), _column(text, data.start()))
    elif _is_in_one_object(text, *keys):
        leaves = _Parser(text, data.end(), data["quote"]).value()
        for leaf in leaves.values() if isinstance(leaves, dict) else ():
            if isinstance(leaf, _Leaf) and not leaf.is_number and leaf.start < leaf.end:
                yield leaf.start, leaf.end


def _is_in_one_object(text: str, one: int, other: int) -> bool:
    """Return True if two keys belong to one object of JSON: no brace between them closes or opens another."""
    depth = 0
    for brace in _BRACES.finditer(text, one, other):
        depth += 1 if brace.group() == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _is_in_one_mapping(text: str, one: int, other: int) -> bool:
    """Return True if two keys belong to one mapping of YAML: they have one column, and no line between is before it."""
    column = _column(text, one)
    _, *between, last = _BREAK.split(text[one:other])
    return column == _column(text, other) >= 0 and not last.strip() and not any(map(_ends(column), between))


def _ends(column: int) -> Callable[[str], bool]:
    """Return a check of lines: true for one that ends the mapping whose keys are in a column."""
    return lambda line: bool(line.strip()) and (len(line) - len(line.lstrip(" ")) < column or line.startswith("---"))


def _column(text: str, at: int) -> int:
    """Return the column of a key, with the marks of lists in front of it; -1 if something else is in front."""
    before = _BREAK.split(text[max(0, at - 60) : at])[-1].lstrip("\"'")
    return -1 if before.strip(" -") else len(before)


def _entries(text: str, at: int, column: int) -> Iterator[tuple[int, int]]:
    """Yield where the values in base64 are on the lines of a mapping below a key in a column."""
    while line := _BREAK.search(text, at, at + _REACH):
        entry = _ENTRY.match(text, line.end())
        at = entry.end() if entry else line.end()
        end = _BREAK.search(text, line.end())
        content = text[line.end() : end.start() if end else len(text)]
        if _ends(column + 1)(content):
            return
        if entry and len(entry["secret"]) > 1 and len(entry["secret"]) % 4 == 0:
            yield entry.span("secret")


class _Line(NamedTuple):
    """A line of a block."""

    key: str
    value: int
    """The start of its value."""
    is_empty: bool


def find_indented(view: View, found: Assignment, names: Names) -> Iterator[Finding]:
    """Find the secrets on the lines below a name, whose own line is over."""
    text = view.text
    if found.sep != ":" or found.demand not in (Demand.NOTHING, Demand.TEXT, Demand.DIGITS):
        return
    if not reaches_down(found.name, found.demand) or not _LINE.match(text, found.value):
        return
    margin = _MARGIN.search(text, max(0, found.start - _BACK), found.start)
    lines = list(_lines(text, found.value, len(margin["margin"].rstrip("\"'")))) if margin else []
    keys = {line.key for line in lines if line.key}
    if is_description(keys, next((_value(text, line) for line in lines if line.key == "type"), None)):
        lines = [line for line in lines if not is_keyword(line.key)]
    for line in lines:
        if line.is_empty or (line.key and is_told(line.key, _value(text, line))):
            continue
        own = names.demand_of(line.key) if line.key else None
        if own is None or own is Demand.NOTHING:
            below = found._replace(value=line.value, gap=" ", close=None, demand=found.demand if own is None else own)
            if finding := find_value(view, below):
                yield finding


def _lines(text: str, at: int, margin: int) -> Iterator[_Line]:
    """Yield the lines of the block that begins behind a position; a list may stand at the margin itself."""
    for _ in range(_MOST):
        line = _LINE.match(text, at)
        if line is None:
            return
        is_below = len(line["indent"]) > margin or (len(line["indent"]) == margin and bool(line["items"]))
        if not is_below or not (line["key"] or line["items"]):
            return
        value = line["value"].strip()
        yield _Line((line["key"] or "").strip("\"'"), line.start("value"), not value or value[0] in "#&*|>{[")
        at = line.start("value") if not value else line.end("value")


def _value(text: str, line: _Line) -> str:
    end = text.find("\n", line.value)
    return text[line.value : end if end >= 0 else len(text)].strip().strip("\"'")
