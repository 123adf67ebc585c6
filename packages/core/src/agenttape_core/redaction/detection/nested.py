"""Secrets below a denied name in a text: in JSON, in what Python prints of a dict or a list, and in lines of YAML.

What is on a line below is judged as if it were right after the name: `password:` and `  old: x` below it, as
`password: x`.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.assigned import Assignment, closing, find_value
from agenttape_core.redaction.detection.findings import NUMBER, SECRET, Finding
from agenttape_core.redaction.detection.names import Demand
from agenttape_core.redaction.detection.values import (
    is_below,
    is_description,
    is_keyword,
    is_placeholder,
    is_text_of_manifest,
    is_told,
    is_told_number,
    reaches_down,
)
from agenttape_core.redaction.detection.views import places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View

_PROMPT = Lazy(r"\S*@\S*[#$%>]|[a-z][\w.-]*[#>]")
"""The prompt of a shell, behind that for a password."""

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

    def __init__(self, text: str, names: Names) -> None:
        self._whole = text
        self._names = names
        self._end = 0

    def find(self, found: Assignment) -> Iterator[Finding]:
        """Find the secrets in the dict or list that is assigned to a name."""
        # What is inside another one was looked at with it, or names in names would be read again and again.
        is_variable = found.sep == "=" and not found.gap and found.name.isupper()
        if found.value < self._end or not (is_variable or (found.close and found.sep in (":", "=>"))):
            return
        if not reaches_down(found.name, found.demand) or not _OPENED.match(self._whole, found.value):
            return
        parser = _Parser(self._whole, found.value, found.close or '"')
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
                yield Finding(leaf.start, leaf.end, NUMBER, leaf.quote)
        elif leaf.start < leaf.end and not is_placeholder(text):
            yield Finding(leaf.start, leaf.end, kind)

    def _text(self, leaf: _Leaf) -> str:
        return self._whole[leaf.start : leaf.end]


_BREAK = Lazy(r"\r?\n|\\n")
_NO_VALUE = Lazy(r"[ \t]{0,8}(?:#[^\r\n\\]{0,200})?(?=\r?\n|\\n)")
"""The rest of the line of a key that has its value below."""
_LINE = Lazy(
    r"""(?x) (?P<indent>[ ]{0,60}) (?P<content> (?P<items>(?:-[ ]{1,4}){0,4})
    (?:(?P<key>["']?[\w.-]{1,253}["']?):(?=\s|\\n|["']?\Z)[ ]{0,4})? (?P<value>(?:[^\r\n\\]++|\\(?!n))*+) )"""
)
"""A line of YAML: its indentation, the marks of items of lists, a key and a value."""
_PAIR = Lazy(
    r"""(?x) [{,] (?:\s|\\n){0,60} (?P<key>(?P<mark>\\{0,7}["'])?[\w.-]{1,253}(?(mark)(?P=mark))): [ ]{0,4}
    (?P<value> (?P<quote>\\{0,7}["'])? (?(quote)(?:(?!(?P=quote))[^\r\n])*+(?P=quote)|[^\s,{}\[\]]*+) )
    (?:\s|\\n){0,60}"""
)
"""A pair of a mapping in braces, in YAML and in JSON."""
_KIND = Lazy(r"""(?P<quote>\\{0,7}["'])?kind(?(quote)(?P=quote)):[ ]{0,4}\\{0,7}["']?\Z""")
_DATA = Lazy(r"""(?P<quote>\\{0,7}["'])?(?:\b|(?<=\\n))(?P<key>data|stringData)(?(quote)(?P=quote)):[ ]{0,4}""")
_DATUM = Lazy(r"""\\{0,7}["']?(?P<datum>[^\s"'\\]++)\\{0,7}["']?[ ]*+(?:(?<=["'])|(?=\\{0,7}["']|\Z))""")
"""A value on its line, behind which a string that holds the manifest may end."""
_BASE64 = Lazy(r"[A-Za-z0-9+/]{2,}+={0,2}")
_BRACES, _IN_BRACES = Lazy(r"[{}]"), Lazy(r"\{[ ]?[A-Za-z_]")
_MARKS = "\\\"'"
_REACH_OF_MANIFEST, _MOST, _NEAREST, _BACK = 8_250, 200, 2, 60
_QUOTE_AND_STRING, _DATA_AND_BLANKS = 14, 17
"""Bounds of a reading, so that no text takes long."""


class _Line(NamedTuple):
    """A line of YAML, or a pair of a mapping in braces."""

    key: str
    start: int  # its value, with the quote of that
    end: int
    value: str  # without quotes
    is_item: bool

    @classmethod
    def of(cls, found: re.Match[str], *, is_item: bool = False) -> _Line:
        """Return a line by its match."""
        key, value = (found["key"] or "").strip(_MARKS), found["value"].strip().strip(_MARKS)
        return cls(key, *found.span("value"), value, is_item)


def _in_braces(text: str, at: int) -> Iterator[_Line]:
    """Yield the pairs in braces at a position, up to one that holds a mapping: that has its own names."""
    while pair := _PAIR.match(text, at):
        yield _Line.of(pair)
        at = pair.end()
        if text[at : at + 1] != ",":
            return


def _on_lines(text: str, at: int, column: int, most: int = _MOST) -> Iterator[_Line]:
    """Yield the lines of the block below a key in a column, without empty ones; a list may be in the column itself."""
    for _ in range(most):
        line_break = _BREAK.search(text, at, at + _REACH)
        line = _LINE.match(text, line_break.end()) if line_break else None
        if line is None:
            return
        at, content = line.end(), line["content"].strip()
        if content and not content.startswith("#"):
            if content == "---" or len(line["indent"]) < column + (not line["items"]):
                return
            yield _Line.of(line, is_item=bool(line["items"]))


def _column(text: str, at: int) -> int:
    """Return the column of a key, with the marks of lists in front of it; -1 if something else is in front."""
    before = _BREAK.split(text[max(0, at - _BACK) : at])[-1].strip(_MARKS)
    return -1 if before.strip(" -") else len(before)


def find_indented(text: str, found: Assignment, names: Names) -> Iterator[Finding]:
    """Find the secrets on the lines below a name, whose own line is over, or in braces behind it."""
    column = _column(text, found.start)
    if found.sep != ":" or found.demand not in (Demand.NOTHING, Demand.TEXT, Demand.DIGITS):
        return
    is_in_braces = found.close is None and _IN_BRACES.match(text, found.value) is not None
    if not reaches_down(found.name, found.demand) or not (is_in_braces or _NO_VALUE.match(text, found.value)):
        return
    first = None if is_in_braces else next(_on_lines(text, found.value, -1), None)
    if first and not (first.key or first.is_item or " " in first.value):  # one word below, as terminals print it
        told = find_value(text, found._replace(value=first.start, sep=" is "))
        yield from [told] if told and not _PROMPT.fullmatch(first.value) else ()
    block = _on_lines(text, found.value, column) if column >= 0 else ()
    below_it = _in_braces(text, found.value) if is_in_braces else block
    lines = list(itertools.takewhile(lambda line: line.key or line.is_item, below_it))
    keys = {line.key for line in lines if line.key}
    if is_description(keys, next((line.value for line in lines if line.key == "type"), None)):
        lines = [line for line in lines if not is_keyword(line.key)]
    for line in lines:
        if not line.value or text[line.start] in "#&*|>{[" or (line.key and is_told(line.key, line.value)):
            continue
        own = names.demand_of(line.key) if line.key else found.demand
        if own is Demand.NOTHING or (own is None and (not is_in_braces or is_text_of_manifest(line.value))):
            below = found._replace(value=line.start, gap=" ", close=None, demand=own or found.demand)
            if finding := find_value(text, below):
                yield finding


def find_in_manifests(view: View) -> Iterator[Finding]:
    """Find the data of a Secret of Kubernetes, in YAML and in JSON, in base64 and as text: all of it is secret."""
    text = view.text
    met = (at for at in places(view.raw, b"Secret") if not text[at + 6 : at + 7].isalnum())
    kinds = [kind for at in met if (kind := _KIND.search(text, max(0, at - _BACK), at))]
    starts = [kind.start() for kind in kinds]
    for data in _keys_of_data(view) if kinds else ():
        nearest = bisect_left(starts, data.start())
        near = kinds[max(0, nearest - _NEAREST) : nearest + _NEAREST]
        if any(_are_together(text, kind, data) for kind in near):
            yield from (view.finding(start, end, SECRET) for start, end in _data_of(text, data))


def _keys_of_data(view: View) -> Iterator[re.Match[str]]:
    """Yield the keys of data, of which a text is searched only near their names: a fiftieth of the cost."""
    done = 0
    for at in sorted([*places(view.raw, b"data"), *places(view.raw, b"Data")]):
        data = _DATA.search(view.text, max(done, at - _QUOTE_AND_STRING), at + _DATA_AND_BLANKS)
        if data and data.start("key") <= at:  # else it's a later one, cut off by the end of this part
            done = data.end()
            yield data


def _data_of(text: str, data: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield where the secret values of data are."""
    is_encoded, column = data["key"] == "data", _column(text, data.start())
    if data["quote"]:
        leaves = _Parser(text, data.end(), data["quote"]).value()
        for leaf in leaves.values() if isinstance(leaves, dict) else ():
            if not isinstance(leaf, _Leaf) or leaf.is_number or leaf.start >= leaf.end:
                continue
            if is_encoded or is_text_of_manifest(text[leaf.start : leaf.end]):
                yield leaf.start, leaf.end
    else:
        block = _on_lines(text, data.end(), column, len(text)) if column >= 0 else ()
        for line in _in_braces(text, data.end()) if text[data.end() : data.end() + 1] == "{" else block:
            datum = _DATUM.match(text, line.start, line.end)
            if datum and (_is_base64 if is_encoded else is_text_of_manifest)(datum["datum"]):
                yield datum.span("datum")


def _are_together(text: str, one: re.Match[str], other: re.Match[str]) -> bool:
    """Return True if two keys belong to one mapping: to one block of lines, or in the same braces."""
    first, last = sorted((one.start(), other.start()))
    if last - first > _REACH_OF_MANIFEST or one["quote"] != other["quote"]:
        return False
    column = _column(text, first)
    if not one["quote"] and max(column, _column(text, last)) >= 0:
        # A line with content that begins in front of the column ends the mapping.
        end = rf"(?:\n|\\n)(?:---|(?![ ]{{{column}}})[ ]*+(?![ \r\n#]|\\[rn]|\Z))"
        return column == _column(text, last) and re.compile(end).search(text, first, last) is None
    depth = 0
    for brace in _BRACES.finditer(text, first, last):
        depth += 1 if brace[0] == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _is_base64(value: str) -> bool:
    return len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None
