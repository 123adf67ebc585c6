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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agenttape_core.redaction.detection.findings import Finding
from agenttape_core.redaction.detection.normal import Normal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONG = 20
"""The shortest unbroken run of token characters that a provider's key has."""

_TOKEN = (string.ascii_letters + string.digits + "_-").encode()
_RUNS = bytes(ord("a") if byte in _TOKEN else ord(" ") for byte in range(256))
_SHAPES = bytes.maketrans(
    (string.digits + string.ascii_uppercase).encode(), b"0" * len(string.digits) + b"A" * len(string.ascii_uppercase)
)
_LONG_RUN = b"a" * LONG
_MOST_WORDS = 100_000
Meaning = TypeVar("Meaning")
_LETTERS = _TOKEN + b"(" + bytes(range(0xC0, 0x100))
_OF_WORDS = bytes(byte if byte in _LETTERS else ord(" ") for byte in range(256))


class View:
    """A text and its searchable forms, the rarer ones made when they are first asked for.

    Args:
        normal: The text as it reads, see `normalised`; it holds no pseudonym.
    """

    __slots__ = ("_normal", "found", "long_runs", "low", "raw", "runs", "shape", "text", "words")

    low: bytes
    """Small letters for capitals."""
    runs: bytes
    """Token characters as `a`, everything else as a blank."""
    shape: bytes
    """Digits as `0`, capitals as `A`, the rest as it is."""
    long_runs: list[int]
    """The start of each long run of token characters; most texts have none."""
    words: set[bytes]
    """All words, with digits, underscores, hyphens, and the bracket that opens behind them: `set_password(`."""

    def __init__(self, normal: Normal) -> None:
        self._normal = normal
        self.text = text = normal.text
        self.raw = text.encode("latin-1", "replace")
        self.found: dict[bytes, Sequence[int]] = {}
        """The places of the words that were looked for, whatever their case."""

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
        elif name == "words":
            made = _words(self.raw)
        else:
            raise AttributeError(name)
        setattr(self, name, made)
        return made

    def places(self, word: bytes) -> Sequence[int]:
        """Return where a word in small letters stands, whatever its case. Names and tables share many words."""
        found = self.found.get(word)
        if found is None:
            found = self.found[word] = places(self.low, word)
        return found

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


def _words(raw: bytes) -> set[bytes]:
    if b"\\" in raw:  # a line break of JSON is no letter of the word behind it
        for escape in (rb"\n", rb"\r", rb"\t"):
            raw = raw.replace(escape, b" ")
    return set(raw.replace(b"(", b"( ").translate(_OF_WORDS).split())


class Known(Generic[Meaning]):
    """A memory of words: those that mean something to a detector, and all others that were met.

    The texts of a program share most of their words, so few of them are looked at.

    Args:
        meaning: Returns what a word means, or `None`.
    """

    def __init__(self, meaning: Callable[[bytes], Meaning | None]) -> None:
        self._meaning = meaning
        self._empty: set[bytes] = set()
        self._full: dict[bytes, Meaning] = {}

    def among(self, words: set[bytes]) -> list[tuple[bytes, Meaning]]:
        """Return the words that mean something, and their meanings."""
        found, full, empty = [], self._full, self._empty
        for word in words - empty:
            meaning = full.get(word) or self._meaning(word)
            if meaning is not None:
                found.append((word, meaning))
                full[word] = meaning
            else:
                empty.add(word)
        if len(empty) + len(full) > _MOST_WORDS:
            self._empty, self._full = set(), {}
        return found


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


def places(text: bytes, literal: bytes) -> Sequence[int]:
    """Return where a literal stands in a text, in order, also where two overlap."""
    at = text.rfind(literal)
    if at < 0:
        return ()
    found = []
    overlap = len(literal) - 1
    while at >= 0:
        found.append(at)
        at = text.rfind(literal, 0, at + overlap)
    found.reverse()
    return found
