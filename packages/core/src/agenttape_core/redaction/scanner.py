"""All findings in one text: the user's rules, then every detector; and the texts among many without any.

A conversation is many short texts, and looking for fifty literals in each costs more than the reading. Joined they
cost what one long text does. A literal that is in one of them is in the joined text, too, and tells which one it is
in: that one is searched as if it were alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.assignments import (
    find_assignments,
    holds_foreign,
    may_be_given,
    name_places,
)
from agenttape_core.redaction.detection.encoded import find_encoded
from agenttape_core.redaction.detection.fields import (
    find_inserted,
    find_tags,
    may_head_column,
    places_of_fields,
)
from agenttape_core.redaction.detection.findings import BASE64, Finding, without_overlaps
from agenttape_core.redaction.detection.names import STEMS, Names
from agenttape_core.redaction.detection.personal import find_emails, find_numbers
from agenttape_core.redaction.detection.provider_keys import PROVIDER_KEYS
from agenttape_core.redaction.detection.runs import find_keys, find_pem, may_be_key
from agenttape_core.redaction.detection.tables import Tables
from agenttape_core.redaction.detection.tables.code import CODE, DATABASES
from agenttape_core.redaction.detection.tables.command_lines import COMMAND_LINES
from agenttape_core.redaction.detection.tables.network import DEVICES, PROTOCOLS, URLS
from agenttape_core.redaction.detection.tables.sentences import SENTENCES
from agenttape_core.redaction.detection.views import (
    LONG,
    Normal,
    View,
    beyond_ascii,
    holds,
    is_normal,
    normalised,
    places,
)
from agenttape_core.redaction.memo import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agenttape_core.redaction.path_placeholders import Places
    from agenttape_core.redaction.rules import Rule

TABLES = Tables(CODE + COMMAND_LINES + DATABASES + PROTOCOLS + DEVICES + URLS + SENTENCES)
"""All rows of all tables."""
_SHORTEST = 4
"""No detector of ours finds anything in a shorter text."""
_MAX_PLAIN = 4_096

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


class Scanner:
    """Finds secrets in a text: what the user's rules name, then the folders of this run, then what the detectors find.

    `holds_secret` tells of a text that was base64, and `is_spared` of a finding, by kind and text.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        holds_secret: Callable[[str], bool],
        is_spared: Callable[[str, str], bool],
        places: Places | None = None,
    ) -> None:
        self._places = places
        self._holds_secret = holds_secret
        self._is_spared = is_spared
        self._rules = [rule for rule in rules if rule.pattern is not None or rule.literal is not None]
        self._own = {rule.name for rule in rules if rule.keys}
        self.names = Names({words: rule.name for rule in rules for words in rule.key_words})

    def find(self, text: str, *, strict: bool = False, is_start: bool = True) -> list[Finding]:
        """Return what is secret in a text that holds no pseudonym, in order and without overlaps.

        In data that isn't text, `strict` looks only for rules, places, and secrets with a form of their own. Without
        `is_start`, the text continues after a pseudonym.
        """
        # Then the detectors find the same for all scanners; and what is longer is seldom the same in two sessions.
        is_shared = not strict and not self._own and len(text) <= _MAX_PLAIN
        is_plain = is_shared and PLAIN.get(text) is not None
        if is_plain and not self._rules and self._places is None:
            return []
        normal = normalised(text)
        view = View(normal)
        found = list(self._ruled(view))
        if self._places is not None:
            as_written = View(Normal(text)) if normal.widths else view  # a place is looked for with its escapes
            found += self._places.find(as_written, is_start=is_start)
        if not is_plain:
            met: list[object] = []
            found += self._detected(text, view, met, strict=strict)
            if is_shared and not met:
                PLAIN.put(text, "")
        if self._rules and normal.text != text:
            found[:0] = self._ruled(View(Normal(text)))  # what a rule spells is meant as it stands, too
        return without_overlaps(found) if found else found

    def plain_among(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield those of some texts in which nothing can be secret, at a fraction of the cost of `find` for each."""
        if self._rules or (self._places is not None and self._places.is_plain):
            return
        signs = () if self._places is None else (b"/",)
        for number in _without_anchors(texts, self.names, signs=signs):
            yield texts[number]

    def _detected(self, text: str, view: View, met: list[object], *, strict: bool) -> Iterator[Finding]:
        """Yield what the detectors find, and note all that they met, also if it is spared or turns out harmless."""
        if len(view.text) < _SHORTEST:
            return
        if found := _by_form(view, strict=strict):
            yield from self._unspared(text, found, met)
        if strict:
            return
        if self.names.has_own or not _is_of_words(view):
            named = self._by_name(view)
            yield from (finding for finding in named if finding.kind in self._own)  # the user's word is never spared
            yield from self._unspared(text, (finding for finding in named if finding.kind not in self._own), met)
            yield from self._unspared(text, TABLES.find(view, self.names), met)
        if len(view.text) >= LONG and view.long_runs:
            yield from self._encoded(view, met)

    def _unspared(self, text: str, findings: Iterable[Finding], met: list[object]) -> Iterator[Finding]:
        for finding in findings:
            met.append(finding)
            if not self._is_spared(finding.kind, text[finding.start : finding.end]):
                yield finding

    def _by_name(self, view: View) -> list[Finding]:
        found = find_assignments(view, self.names)
        if b"(" in view.raw:
            found += find_inserted(view, self.names)
        if b"=" in view.raw and b"<" in view.raw:
            found += find_tags(view, self.names)
        return found

    def _ruled(self, view: View) -> Iterator[Finding]:
        for rule in self._rules:
            yield from rule.find(view)

    def _encoded(self, view: View, met: list[object]) -> Iterator[Finding]:
        for start, end, text in find_encoded(view):
            met.append(text)
            if self._holds_secret(text):
                yield view.finding(start, end, BASE64)


def _by_form(view: View, *, strict: bool) -> list[Finding]:
    """Return the secrets that have a form of their own; each search is made only where it can find something."""
    raw = view.raw
    found: list[Finding] = []
    if len(view.text) >= LONG:
        if view.long_runs or b"_" in raw:
            found += find_keys(view)
        if b"-" in raw and holds(raw, b"-----BEGIN"):
            found += find_pem(view)
    if strict:
        return found
    if b"0" in view.shape:
        found += find_numbers(view)
    if b"@" in raw or (b"%" in raw and b"%40" in raw) or (b"\\" in raw and rb"\u0040" in raw):
        found += find_emails(view)
    return found


def _without_anchors(texts: Sequence[str], names: Names, *, signs: tuple[bytes, ...] = ()) -> Iterator[int]:
    """Yield the numbers of the texts in which the detectors find nothing, and would not even look closer.

    Texts with one of the `signs` are searched, too.
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


def _is_of_words(view: View) -> bool:
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
    """The texts among some that hold an anchor."""

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
