r"""One text, seen in the forms that are cheap to search.

Most strings hold no secret, so the question "could there be one?" must cost little more than reading the string.
Searching a translated copy for a literal runs at memory speed; a regular expression costs 50 times as much. All
views have one byte per character, so a position in one is a position in all.

Most texts lack most literals, and are read from their end. For that CPython's `rfind` takes half the time of `find`
and of `in`, which weigh each step to be linear for needles of any length (`Objects/stringlib/fastsearch.h`); ours are
short. A single character is as quick either way.

A text is searched as it reads: without colours, invisible characters, full-width forms and escapes. Agents read
coloured terminals, and people copy keys from chats and web pages: `\x1b[31mghp_...`, a key with a soft hyphen in it.

Quotations, diffs, listings and logs put a mark, a number or a time in front of each line, which belongs to no line.
Tools return JSON in ASCII, in which `\u5bc6\u7801` is a password, and pages with quotes such as `&quot;` or `%22`.
A finding has the positions of the original.
"""

from __future__ import annotations

import itertools
import string
from bisect import bisect_right
from html import unescape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.findings import Finding

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence


_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_OF_BOXES = dict(zip(map(ord, "│┃║─━═┌┬┐├┼┤└┴┘╭╮╰╯╒╤╕╞╪╡╘╧╛┏┳┓┡╇┩┗┻┛╔╦╗╠╬╣╚╩╝"), b"|||---" + b"+" * 48, strict=False))
"""The lines of tables, as `|`, `-` and `+` draw them."""
_LIKE_ASCII = _FULL_WIDTH | _OF_BOXES | {0xA0: 32, 0x3000: 32, 0x2007: 32, 0x202F: 32, 0x2010: 45, 0x2011: 45}
"""Characters that stand for one of ASCII (Unicode, Halfwidth and Fullwidth Forms; no-break blanks and hyphens)."""
_LIKE = {chr(code): chr(like) for code, like in _LIKE_ASCII.items()}
_ESCAPED = (
    r"\\ (?=[ux0e\\]) (?: (?:u001[bB]|x1[bB]|033|e)\[ [0-9;]{0,32} [mK]"
    r"  | u(?:00[aA][dD]|200[b-fB-F]|2060|[fF][eE][fF][fF])"
    r"  | (?<!\\\\) \\{0,6} u (?P<code> (?!00[0-7]) [0-9a-fA-F]{4} | 00(?:2[67]|3[c-eC-E])))"
)
_OF_TERMINALS = r"\x1b (?: \[ [0-9;:?]{0,32} [\ -/]{0,4} [@-~] | \] [^\x07\x1b]{0,1024} (?:\x07|\x1b\\))"
"""Control sequences (ECMA-48, 5.4) and commands of a terminal."""
_UNSEEN = {
    "\x1b": Lazy(f"(?x) {_ESCAPED} | {_OF_TERMINALS}"),
    "\\": Lazy(f"(?x) {_ESCAPED}"),
    "&": Lazy(
        r"(?x) & (?P<entity>"
        r"  (?:quot|apos|lt|gt|amp|equals|colon|\#0?(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])|\#[xX][2-7][0-9a-fA-F]);)"
    ),
    "%": Lazy(r"%(?P<percent>2[267]|3[ADad])"),
}
"""Text that a terminal or a browser does not show, also as JSON and programs escape it, by its first character.

A pattern that begins with one character is searched for three times as fast as one that begins with any of some.
"""
_INVISIBLE = Lazy(r"[\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]")
_GIVEN = Lazy(r"%3[dD](?<=[A-Za-z]%3[dD])(?=[\w.!@$*+-])")
"""The equals sign between a name and its value in an address inside of another one."""
_COLON = "%22%3"
"""A quote, and the colon or the equals sign behind it, in an address: without it, `%22` and `%3A` stay."""
_ODD = Lazy(
    r"[\xa0\xad\u2007\u2010\u2011\u202f\u2500-\u256f\u3000\uff01-\uff5e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e007f]"
)
"""All characters that are looked for: one pass for a text that has none."""
_MARGIN = (
    r"(?:[ \t]{1,6}+(?:>[ ]?|\d{1,6}+(?:[\t\u2192]|\\t))|>[ ]?|\+(?!\d)|\d{1,6}+(?:\u2192|:[ ]?"
    r"|(?<=\d{4})-\d\d-\d\d[T ]\d\d:\d\d[\d:.,]{0,12}+(?:Z|[+-]\d\d:?\d\d)?[ ])"
    r"|[A-Za-z][\w.-]{1,40}+(?:(?<=[_-]\d)|(?<=[_-]\d\d))[ ]{1,20}+\|[ ]|L\d{1,6}:[ ])++"
)
"""The text in front of a line: of a quotation, a diff, a listing, a log, and of the services of a composition."""
_MARGINS = {"\n": Lazy(rf"\n(?P<margin>{_MARGIN})"), "\\n": Lazy(rf"\\n(?P<margin>{_MARGIN})")}
"""Margins behind a line break, and behind one of JSON."""
_FIRST_MARGIN = Lazy(rf"[\"']?(?P<margin>{_MARGIN})")


_ASCII = bytes(range(128))


class Normal(NamedTuple):
    """A text as it reads, and where its unbroken parts begin, here and in the original; none if they are the same.

    `widths` has the length in the original of the parts that are an escape there, by where they begin.
    """

    text: str
    starts: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()
    widths: Mapping[int, int] = MappingProxyType({})

    def origin(self, at: int) -> int:
        """Return where the character at a position of this text stands in the original."""
        part = bisect_right(self.starts, at) - 1
        return self.origins[part] + at - self.starts[part] if self.starts else at

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the original that a part of this text stands for, with all that is unseen inside of it."""
        if end <= start:
            return (self.origin(start),) * 2
        return self.origin(start), self.origin(end - 1) + self.widths.get(end - 1, 1)


def normalised(text: str) -> Normal:
    """Return a text as it reads. Pure; most texts come back as they are, at the price of a few look-ups."""
    parts = [(*margin, "") for margin in _margins(text)]
    # In what is beyond ASCII alone: a tenth of the cost.
    if odd := set() if text.isascii() else set(_ODD.findall(beyond_ascii(text))):
        for like in odd & _LIKE.keys():  # each once, as `str.translate` takes fifty times as long
            text = text.replace(like, _LIKE[like])
        if _INVISIBLE.search("".join(odd)):
            parts += [(*found.span(), "") for found in _INVISIBLE.finditer(text)]
    for sign in "\x1b&%" if "\x1b" in text else "\\&%":
        if sign in text and (sign != "%" or _holds_names(text)):
            parts += [(*found.span(), _shown(found)) for found in _UNSEEN[sign].finditer(text)]
    return _without(text, sorted(parts)) if parts else Normal(text)


def _margins(text: str) -> list[tuple[int, int]]:
    """Return where the margins of lines are, in order; a line beside which none has a margin has none either."""
    kept: set[tuple[int, int]] = set()
    for line_break, pattern in _MARGINS.items():
        if text.rfind(line_break) < 0:
            continue
        found = [match.span("margin") for match in pattern.finditer(text)]
        if first := _FIRST_MARGIN.match(text):
            found.insert(0, first.span("margin"))
        for above, below in itertools.pairwise(found):
            if text.find(line_break, above[1]) + len(line_break) == below[0]:
                kept |= {above, below}
    return sorted(kept)


def beyond_ascii(text: str) -> str:
    """Return the characters of a text that ASCII does not have: a tenth of the cost of a search for some of them."""
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _holds_names(text: str) -> bool:
    """Return True if a text has names and their values as an address has them within another one."""
    return text.rfind("%3") >= 0 and (text.rfind(_COLON) >= 0 or _GIVEN.search(text) is not None)


def _without(text: str, parts: Iterable[tuple[int, int, str]]) -> Normal:
    """Return a text with other texts instead of some parts of it, which may overlap."""
    pieces: list[str] = []
    starts: list[int] = []
    origins: list[int] = []
    widths: dict[int, int] = {}
    at = length = 0
    for start, end, seen in parts:
        if start < at:
            continue
        if start > at:
            starts.append(length)
            origins.append(at)
            pieces.append(text[at:start])
            length += start - at
        if seen:
            starts.append(length)
            origins.append(start)
            pieces.append(seen)
            widths[length] = end - start
            length += 1
        at = end
    starts.append(length)
    origins.append(at)
    return Normal("".join([*pieces, text[at:]]), tuple(starts), tuple(origins), widths)


def _shown(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for; none if it is not seen."""
    if escape.lastgroup == "code":
        character = chr(int(escape["code"], 16))
        return "" if _ODD.search(character) and character not in _LIKE else _LIKE.get(character, character)
    if escape.lastgroup == "entity":
        return unescape(escape[0])
    return unquote(escape[0]) if escape.lastgroup == "percent" else ""


LONG = 20
"""The shortest unbroken run of token characters that a provider's key has."""

_TOKEN = (string.ascii_letters + string.digits + "_-").encode()
_RUNS = bytes(ord("a") if byte in _TOKEN else ord(" ") for byte in range(256))
_SHAPES = bytes.maketrans(
    (string.digits + string.ascii_uppercase).encode(), b"0" * len(string.digits) + b"A" * len(string.ascii_uppercase)
)
LONG_RUN = b"a" * LONG
_DIGITS = bytes(ord("0") if chr(byte) in string.digits else ord(" ") for byte in range(256))
_FOUR_DIGITS = b"0000"
_WIDE, _BEHIND = 3_072, 64
"""The size of a window, and how far behind it the rest of a literal may reach."""
_MOST_WORDS = 100_000
_OF_NUMBERS = b"0123456789abcdef-"
_SHORT = 3
"""Numbers of so many digits are met again."""
_OF_WORDS = bytes(byte if byte in _TOKEN + bytes(range(0xC0, 0x100)) else ord(" ") for byte in range(256))


class Met(NamedTuple):
    """A word that means something to a reader, and where the part of a text starts and ends that has it."""

    start: int
    end: int
    word: bytes
    meaning: Any

    def places(self, text: bytes, literal: bytes) -> Sequence[int]:
        """Return where a literal begins in this part of a text."""
        return places(text, literal, self.start, self.end + len(literal) - 1)


class View:
    """A text without a pseudonym, and its searchable forms."""

    __slots__ = ("_met", "_normal", "digits", "long_runs", "low", "raw", "runs", "shape", "text")

    def __init__(self, normal: Normal) -> None:
        self._normal = normal
        self.text = text = normal.text
        self.raw = raw = text.encode("latin-1", "replace")
        self.low = raw.lower()
        """Small letters for capitals."""
        self.runs = raw.translate(_RUNS)
        """Token characters as `a`, everything else as a blank."""
        self.shape = raw.translate(_SHAPES)
        """Digits as `0`, capitals as `A`, the rest as it is."""
        self.long_runs = _starts(self.runs, LONG_RUN)
        """The start of each long run of token characters; most texts have none."""
        self.digits = _starts(raw.translate(_DIGITS), _FOUR_DIGITS) if holds(self.shape, _FOUR_DIGITS) else []
        """The start of each run of four digits or more."""
        self._met: list[list[Met]] = []

    @property
    def met(self) -> list[list[Met]]:
        """The words that mean something to each reader; a literal is looked for only in the parts that have its word.

        Digits, underscores and hyphens are part of a word. Parts are cut between words, and a little behind one counts.
        """
        if not self._met:
            self._met = _met(self.raw)
        return self._met

    def is_varied(self, run: int) -> bool:
        """Return True if a long run that starts at a position begins with more than small letters, as all keys do."""
        head = self.raw[run : run + LONG].translate(_SHAPES)
        return head.find(b"0") >= 0 or head.find(b"A") >= 0

    def finding(self, start: int, end: int, kind: str, quote: str = "") -> Finding:
        """Return a finding in this text, by its place in the original."""
        if self._normal.starts:
            start, end = self._normal.span(start, end)
        return Finding(start, end, kind, quote)


def _met(raw: bytes) -> list[list[Met]]:
    met: list[list[Met]] = [[] for _ in VOCABULARY.readers]
    words = raw
    for escape in (b"\\n", b"\\r", b"\\t") if b"\\" in raw else ():
        words = words.replace(escape, b"  ")  # its letter isn't part of the next word
    words = words.translate(_OF_WORDS)
    start, size = 0, len(raw)
    while start < size:
        is_last = size - start <= _WIDE + _BEHIND
        end = size if is_last else words.rfind(b" ", start, start + _WIDE) + 1 or start + _WIDE
        for word, reader, meaning in VOCABULARY.among(words[start : end + _BEHIND].split()):
            met[reader].append(Met(start, end, word, meaning))
        start = end
    return met


class Vocabulary:
    """The meanings of words to the detectors, and a memory of the words that were met.

    The texts of a program share most of their words, so few of them are looked at.
    """

    def __init__(self) -> None:
        self.readers: list[Callable[[bytes], Any]] = []
        self._words: set[bytes] = set()
        self._ends: tuple[bytes, ...] = ()
        self._empty: set[bytes] = set()
        self._full: dict[bytes, list[tuple[bytes, int, Any]]] = {}

    def add(self, meaning: Callable[[bytes], Any], words: Iterable[bytes], ends: Iterable[bytes] = ()) -> int:
        """Add a reader of words, and return its place among the readers.

        A word of letters alone means something only if it's among some `words`, in small letters, or has one of some
        `ends`. So do long numbers and hashes, of which each text has others. All other words are read.
        """
        self.readers.append(meaning)
        self._words.update(map(bytes.lower, words))
        self._ends += tuple(ends)
        self._empty, self._full = set(), {}
        return len(self.readers) - 1

    def among(self, words: Iterable[bytes]) -> list[tuple[bytes, int, Any]]:
        """Return the words that mean something, each with a reader and its meaning to that reader."""
        found, full, empty = [], self._full, self._empty
        for word in set(itertools.filterfalse(empty.__contains__, words)):  # cheaper than a set of all words
            meant = full.get(word)
            if meant is None:
                meant = self._meant(word)
                if meant:
                    full[word] = meant
                elif len(word) <= _SHORT or word.strip(_OF_NUMBERS):
                    empty.add(word)
            found += meant
        if len(empty) + len(full) > _MOST_WORDS:
            self._empty, self._full = set(), {}
        return found

    def _meant(self, word: bytes) -> list[tuple[bytes, int, Any]]:
        is_one = word.isalpha() and (word.islower() or word.istitle() or word.isupper())
        if is_one or (len(word) > _SHORT and not word.strip(_OF_NUMBERS)):
            small = word.lower().strip(b"-")
            if small not in self._words and not small.endswith(self._ends):
                return []
        return [(word, at, meaning) for at, read in enumerate(self.readers) if (meaning := read(word))]


VOCABULARY = Vocabulary()


def _starts(runs: bytes, least: bytes) -> list[int]:
    """Return where the runs start that are long enough; from the end, as the module says."""
    found = []
    at = runs.rfind(least)
    while at >= 0:
        at = runs.rfind(b" ", 0, at) + 1
        found.append(at)
        at = runs.rfind(least, 0, at)
    found.reverse()
    return found


def holds(text: bytes, literal: bytes) -> bool:
    """Return True if a text holds a literal."""
    return text.rfind(literal) >= 0


def places(text: bytes, literal: bytes, start: int = 0, end: int | None = None) -> Sequence[int]:
    """Return where a literal stands in a text, or in a part of it, in order, also where two overlap."""
    at = text.rfind(literal, start, end)
    if at < 0:
        return ()
    found = []
    overlap = len(literal) - 1
    while at >= 0:
        found.append(at)
        at = text.rfind(literal, start, at + overlap)
    found.reverse()
    return found
