"""Texts in which no detector has anything to look at, found among many at once.

A conversation is many short texts, and looking for fifty literals in each costs more than the reading. Joined they
cost what one long text does. A literal that is in one of them is in the joined text, too, and tells which one it is
in: that one is searched as if it were alone. So what this knows of a detector is the literal it begins with, and
nothing of what it makes of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.assignments import may_be_given
from agenttape_core.redaction.detection.fields import may_head_column, places_of_fields
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.name_places import holds_foreign, name_places
from agenttape_core.redaction.detection.normal import Normal, beyond_ascii, is_normal
from agenttape_core.redaction.detection.provider_keys import PROVIDER_KEYS
from agenttape_core.redaction.detection.runs import may_be_key
from agenttape_core.redaction.detection.tables import TABLES
from agenttape_core.redaction.detection.views import View, holds, places
from agenttape_core.redaction.detection.vocabulary import STEMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agenttape_core.redaction.detection.names import Names

_BETWEEN = "\n"
_LONGEST = 256
"""A longer text that is more than words has an anchor more often than not, so it's only searched alone."""
_SIGNS = (b"@", b"%", b"+", b"\\", b"\x1b")
"""Characters that are rare in prose, and that an address, an escape or a phone number holds."""
_FORMS = (
    (b"-", b"-----BEGIN"),
    *((anchor[-1:], anchor) for found in PROVIDER_KEYS if found.near == "base64" for anchor in found.anchors),
)
"""Literals of secrets, each with a character that is cheaper to look for: no text that lacks it has the literal."""
_SHAPES = (b"0000", b"AA00")
_THREE = b"AAA"
_CAPITALS, _CAPITAL_STEM = (
    re.compile(b"A+"),
    re.compile(b"|".join(stem.upper() for stem in STEMS).replace(b"KEY", b"[A-Z]KEY")),
)
_INSIDE = Lazy(r"\?[^\s)?]")
_SIGN = b"!"
_COMMON_SIGNS = (b":", b"'", b'"', b"-")
"""Signs that most texts have that are more than words. To look for a character takes next to no time."""
_WORDS = (
    bytes(
        ord("A") if char.isupper() else ord("a") if char.islower() else ord(" ") if char in " .,?()\n" else ord("!")
        for char in map(chr, range(128))
    )
    + b"!" * 64
    + b"a" * 64
)
"""Capitals, small letters, what stands between words, and everything else, which is a sign."""


def without_anchors(texts: Sequence[str], names: Names, *, signs: tuple[bytes, ...] = ()) -> Iterator[int]:
    """Yield the numbers of the texts in which the detectors find nothing, and would not even look closer.

    Args:
        texts: The texts.
        names: The names that are denied.
        signs: More characters that a text to be searched has.
    """
    words = set() if names.has_own else _of_words(texts)
    if len(words) == len(texts):
        return iter(range(len(texts)))
    odd = {
        number
        for number, text in enumerate(texts)
        if number not in words and (len(text) > _LONGEST or (not text.isascii() and _is_odd(text)))
    }
    marked = _Marked([text if number not in odd and number not in words else "" for number, text in enumerate(texts)])
    marked.signs(_SIGNS + signs)
    marked.literals(names)
    return (number for number in range(len(texts)) if number not in odd and number not in marked.numbers)


def _of_words(texts: Sequence[str]) -> set[int]:
    """Return the numbers of texts that are words and nothing else.

    A value needs a sign or a digit: a separator or a quote before it, or something in it that words do not have. Only
    a command (`ENV PASSWORD x`) and the run of a key can do without; a name in capitals and a long word are looked for.
    """
    view = View(Normal(_BETWEEN.join(texts)))
    marks = view.raw.translate(_WORDS)
    ends = [0, *accumulate(len(text) + len(_BETWEEN) for text in texts)]
    found = {
        number
        for number, text in enumerate(texts)
        if marks.find(_SIGN, ends[number], ends[number + 1] - 1) < 0 and text.isascii() and not _may_give(text)
    }
    if not found:
        return found
    given = {bisect_right(ends, at) - 1 for at in _capital_names(view.raw, marks)}
    for at in view.long_runs:
        number = bisect_right(ends, at) - 1
        if number in found and number not in given and may_be_key(view, at):
            given.add(number)
    return found - given


def is_of_words(view: View) -> bool:
    """Return True for a text of words alone, in which no name has a value; see `_of_words`."""
    if any(sign in view.raw for sign in _COMMON_SIGNS):
        return False
    marks, text = view.raw.translate(_WORDS), view.text
    if marks.find(_SIGN) >= 0 or _may_give(text) or next(_capital_names(view.raw, marks), None) is not None:
        return False
    return text.isascii() or (beyond_ascii(text).isalpha() and not holds_foreign(text))


def _may_give(text: str) -> bool:
    """Return True if there may be a table among words, or a question mark inside of one."""
    return ("," in text and "\n" in text) or ("?" in text and _INSIDE.search(text) is not None)


def _capital_names(raw: bytes, marks: bytes) -> Iterator[int]:
    """Yield where a name in capitals begins."""
    end = 0
    for at in places(marks, _THREE):
        run = _CAPITALS.match(marks, at) if at >= end else None
        if run:
            end = run.end()
            if _CAPITAL_STEM.search(raw, at, end):
                yield at


def _is_odd(text: str) -> bool:
    return not is_normal(text) or holds_foreign(text)


class _Marked:
    """The texts among some that hold an anchor.

    Args:
        texts: The texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.numbers: set[int] = set()
        self._ends = list(accumulate(len(text) + len(_BETWEEN) for text in texts))
        self._view = View(Normal(_BETWEEN.join(texts)))

    def signs(self, signs: tuple[bytes, ...]) -> None:
        for sign in signs:
            self._mark(self._view.raw, sign)

    def literals(self, names: Names) -> None:
        view = self._view
        for near, literal in _FORMS:
            if near in view.raw:
                self._mark(view.raw, literal)
        for literal in _SHAPES if b"0" in view.shape else ():
            self._mark(view.shape, literal)
        keys = (at for at in view.long_runs if may_be_key(view, at))
        named = (at for at in name_places(view, names) if may_be_given(view, at, names) or may_head_column(view, at))
        of_tables = (at for _, _, found in TABLES.near(view) for at in found)
        for at in chain(keys, named, of_tables, places_of_fields(view)):
            self.numbers.add(bisect_right(self._ends, at))

    def _mark(self, searched: bytes, literal: bytes) -> None:
        """Mark the texts that hold a literal; each is looked through up to the first."""
        at = searched.find(literal) if holds(searched, literal) else -1
        while at >= 0:
            number = bisect_right(self._ends, at)
            self.numbers.add(number)
            at = searched.find(literal, self._ends[number])
