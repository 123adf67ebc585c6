"""One text, seen in the forms that are cheap to search.

Most strings hold no secret, so the question "could there be one?" must cost little more than reading the string.
Searching a translated copy for a literal runs at memory speed; a regular expression costs 50 times as much. All
views have one byte per character, so a position in one is a position in all.

Most texts lack most literals, and are read from their end. For that CPython's `rfind` takes half the time of `find`
and of `in`, which weigh each step to be linear for needles of any length (`Objects/stringlib/fastsearch.h`); ours are
short. A single character is as quick either way.
"""

from __future__ import annotations

import string
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.redaction.detection.findings import Finding
from agenttape_core.redaction.detection.normal import Normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LONG = 20
"""The shortest unbroken run of token characters that a provider's key has."""

_TOKEN = (string.ascii_letters + string.digits + "_-").encode()
_RUNS = bytes(ord("a") if byte in _TOKEN else ord(" ") for byte in range(256))
_SHAPES = bytes.maketrans(
    (string.digits + string.ascii_uppercase).encode(), b"0" * len(string.digits) + b"A" * len(string.ascii_uppercase)
)
_LONG_RUN = b"a" * LONG
_WIDE, _BEHIND = 4_096, 64
"""The size of a window, and how far behind it the rest of a literal may reach."""
_MOST_WORDS = 100_000
_LETTERS = _TOKEN + b"(" + bytes(range(0xC0, 0x100))
_OF_WORDS = bytes(byte if byte in _LETTERS else ord(" ") for byte in range(256))


class Window(NamedTuple):
    """A part of a text that is cut at blanks, and the words that mean something in it, and a little behind it."""

    start: int
    end: int
    words: list[tuple[bytes, tuple[Any, ...]]]


class View:
    """A text and its searchable forms, the rarer ones made when they are first asked for.

    Args:
        normal: The text as it reads, see `normalised`; it holds no pseudonym.
    """

    __slots__ = ("_among", "_normal", "long_runs", "low", "raw", "runs", "shape", "text", "windows")

    low: bytes
    """Small letters for capitals."""
    runs: bytes
    """Token characters as `a`, everything else as a blank."""
    shape: bytes
    """Digits as `0`, capitals as `A`, the rest as it is."""
    long_runs: list[int]
    """The start of each long run of token characters; most texts have none."""
    windows: list[Window]
    """The parts with a word that means something; a literal is looked for only where its words are.

    A word has digits, underscores, hyphens, and the bracket that opens behind it: `set_password(`.
    """

    def __init__(self, normal: Normal) -> None:
        self._normal = normal
        self.text = text = normal.text
        self.raw = text.encode("latin-1", "replace")
        self._among: dict[int, dict[object, list[Window]]] = {}

    def __getattr__(self, name: str) -> Any:
        """Make a form when it is first asked for; after that it is found without asking here."""
        made: Any
        if name == "low":
            made = self.raw.lower()
        elif name == "shape":
            made = self.raw.translate(_SHAPES)
        elif name == "runs":
            made = self.raw.translate(_RUNS)
        elif name == "long_runs":
            made = _starts(self.runs)
        elif name == "windows":
            made = _windows(self.raw)
        else:
            raise AttributeError(name)
        setattr(self, name, made)
        return made

    def among(self, reader: int, meaning: object) -> list[Window]:
        """Return the windows with a word that means something certain to one reader of the vocabulary."""
        found = self._among.get(reader)
        if found is None:
            found = self._among[reader] = {}
            for window in self.windows:
                for means in dict.fromkeys(meanings[reader] for _, meanings in window.words):
                    found.setdefault(means, []).append(window)
        return found.get(meaning, [])

    def is_varied(self, run: int) -> bool:
        """Return True if a long run that starts at a position begins with more than small letters, as all keys do."""
        head = self.raw[run : run + LONG].translate(_SHAPES)
        return head.find(b"0") >= 0 or head.find(b"A") >= 0

    def end_of(self, finding: Finding) -> int:
        """Return where a finding ends in this text; itself, it has the positions of the original."""
        return self._normal.place(finding.end)

    def finding(self, start: int, end: int, kind: str, quote: str = "") -> Finding:
        """Return a finding in this text, by its place in the original."""
        if self._normal.starts:
            start, end = self._normal.span(start, end)
        return Finding(start, end, kind, quote)


def _words(raw: bytes) -> list[bytes]:
    if b"\\" in raw:  # a line break of JSON is no letter of the word behind it
        for escape in (rb"\n", rb"\r", rb"\t"):
            raw = raw.replace(escape, b" ")
    return raw.replace(b"(", b"( ").translate(_OF_WORDS).split()


def _windows(raw: bytes) -> list[Window]:
    found, start, size = [], 0, len(raw)
    while start < size:
        end = size if size - start <= _WIDE + _BEHIND else start + _last_cut(raw[start : start + _WIDE])
        if words := VOCABULARY.among(_words(raw[start : end + _BEHIND])):
            found.append(Window(start, end, words))
        start = end
    return found


def _last_cut(piece: bytes) -> int:
    """Return where a piece of a text may be cut: behind a blank, else between words, but within no escape."""
    at = piece.rfind(b" ") + 1 or piece.translate(_OF_WORDS).rfind(b" ") + 1
    return (at - 1 if piece[at - 1 : at] == b"\\" else at) or len(piece)


class Vocabulary:
    """The meanings of words to the detectors, and a memory of the words that were met.

    The texts of a program share most of their words, so few of them are looked at.
    """

    def __init__(self) -> None:
        self._readers: list[Callable[[bytes], Any]] = []
        self._empty: set[bytes] = set()
        self._full: dict[bytes, tuple[Any, ...]] = {}

    def add(self, meaning: Callable[[bytes], Any]) -> int:
        """Add a reader, and return the place of what it reads in the meanings of a word.

        Args:
            meaning: Returns what a word means; anything that is false if it means nothing.
        """
        self._readers.append(meaning)
        self._empty, self._full = set(), {}
        return len(self._readers) - 1

    def among(self, words: Iterable[bytes]) -> list[tuple[bytes, tuple[Any, ...]]]:
        """Return the words that mean something, with what they mean to each reader."""
        found, full, empty = [], self._full, self._empty
        for word in set(filterfalse(empty.__contains__, words)):
            meanings = full.get(word) or tuple(read(word) for read in self._readers)
            if any(meanings):
                found.append((word, meanings))
                full[word] = meanings
            else:
                empty.add(word)
        if len(empty) + len(full) > _MOST_WORDS:
            self._empty, self._full = set(), {}
        return found


VOCABULARY = Vocabulary()


def _starts(runs: bytes) -> list[int]:
    """Return where the long runs start; from the end, as the module says."""
    found = []
    at = runs.rfind(_LONG_RUN)
    while at >= 0:
        at = runs.rfind(b" ", 0, at) + 1
        found.append(at)
        at = runs.rfind(_LONG_RUN, 0, at)
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


def places_among(text: bytes, literal: bytes, windows: Iterable[Window]) -> Iterator[int]:
    """Yield where a literal begins in some windows of a text."""
    for window in windows:
        yield from places(text, literal, window.start, window.end + len(literal) - 1)
