"""All findings in one text: the user's rules, then every detector."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.assignments import (
    find_assignments,
    holds_foreign,
)
from agenttape_core.redaction.detection.encoded import find_encoded
from agenttape_core.redaction.detection.fields import find_inserted, find_tags
from agenttape_core.redaction.detection.findings import BASE64, Finding, without_overlaps
from agenttape_core.redaction.detection.names import STEMS, Names
from agenttape_core.redaction.detection.personal import find_emails, find_numbers
from agenttape_core.redaction.detection.runs import find_keys
from agenttape_core.redaction.detection.tables import Tables
from agenttape_core.redaction.detection.tables.code import CODE, DATABASES
from agenttape_core.redaction.detection.tables.command_lines import COMMAND_LINES
from agenttape_core.redaction.detection.tables.network import DEVICES, PROTOCOLS, URLS
from agenttape_core.redaction.detection.tables.sentences import SENTENCES
from agenttape_core.redaction.detection.views import LONG, LONG_RUN, Normal, View, beyond_ascii, holds, normalised
from agenttape_core.redaction.memo import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agenttape_core.redaction.path_placeholders import Places
    from agenttape_core.redaction.rules import Rule

TABLES = Tables(CODE + COMMAND_LINES + DATABASES + PROTOCOLS + DEVICES + URLS + SENTENCES)
"""All rows of all tables."""
_SHORTEST = 4
"""No detector of ours finds anything in a shorter text."""
_MAX_PLAIN = 4_096

_CAPITAL_STEM = re.compile(b"|".join(stem.upper() for stem in STEMS).replace(b"KEY", b"[A-Z]KEY"))
_INSIDE = Lazy(r"\?[^\s)?]")
_THREE, _SIGN = b"AAA", b"!"
_COMMON_SIGNS = (b":", b"'", b'"', b"-")
"""Signs that most texts have that are more than words. To look for a character takes next to no time."""
_WORDS = (
    bytes(
        ord("A") if char.isupper() else ord("a") if char.islower() else ord(" ") if char in " .,?()\n" else ord("!")
        for char in map(chr, range(128))
    )
    + bytes(ord("a") if chr(byte).isalpha() else ord("!") for byte in range(128, 192))
    + b"a" * 64
)
"""Capitals, small letters, what stands between words, and everything else, which is a sign."""


class Scanner:
    """Finds secrets in a text: by the user's rules, then the folders of this run, then the detectors.

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
        """Return the secrets of a text that holds no pseudonym, in order and without overlaps.

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
        found = list(self._ruled(view)) if self._rules else []
        if self._places is not None:
            as_written = View(Normal(text)) if normal.widths else view  # a place is looked for with its escapes
            found += self._places.find(as_written, is_start=is_start)
        if not is_plain:
            detected, is_met = self._detected(text, view, strict=strict)
            found += detected
            if is_shared and not is_met:
                PLAIN.put(text, "")
        if self._rules and normal.text != text:
            found[:0] = self._ruled(View(Normal(text)))  # what a rule spells is meant as it stands, too
        return without_overlaps(found) if found else found

    @staticmethod
    def is_of_words(text: str) -> bool:
        """Return True for a text of words alone, in which no detector finds anything: a quick look."""
        if ":" in text or "'" in text or '"' in text or "-" in text or not text.isascii():
            return False  # most texts have a sign that are more than words: to look for one takes next to no time
        marks = _marks_of_words(text, text.encode())
        return marks is not None and not holds(marks.lower(), LONG_RUN)  # a long word may be a key

    def _detected(self, text: str, view: View, *, strict: bool) -> tuple[list[Finding], bool]:
        """Return the findings of the detectors, and whether they met anything, even something harmless."""
        if len(view.text) < _SHORTEST:
            return [], False

        def is_kept(found: Finding) -> bool:
            return not self._is_spared(found.kind, text[found.start : found.end])

        formed, named, ruled, encoded = _by_form(view, strict=strict), [], [], []
        if not strict and (self.names.has_own or not _is_of_words(view)):
            named = [each for find in (find_assignments, find_inserted, find_tags) for each in find(view, self.names)]
            ruled = list(TABLES.find(view, self.names))
        if not strict and len(view.text) >= LONG and view.long_runs:
            encoded = list(find_encoded(view))
        if not (formed or named or ruled or encoded):
            return [], False
        found = [*filter(is_kept, formed)]
        found += (each for each in named if each.kind in self._own or is_kept(each))  # the user's word is never spared
        found += filter(is_kept, ruled)
        found += (view.finding(start, end, BASE64) for start, end, inner in encoded if self._holds_secret(inner))
        return found, True

    def _ruled(self, view: View) -> Iterator[Finding]:
        for rule in self._rules:
            yield from rule.find(view)


def _by_form(view: View, *, strict: bool) -> list[Finding]:
    """Return the secrets that have a form of their own; each search is made only where it can find something."""
    raw = view.raw
    found: list[Finding] = []
    if len(view.text) >= LONG and (view.long_runs or b"_" in raw or (b"-" in raw and holds(raw, b"-----BEGIN"))):
        found += find_keys(view)
    if strict:
        return found
    if b"0" in view.shape:
        found += find_numbers(view)
    return [*found, *find_emails(view)]


def _is_of_words(view: View) -> bool:
    """Return True for a text of words alone, in which no name has a value.

    A value needs a sign or a digit: a separator or a quote before it, or something in it that words do not have. Only
    a command (`ENV PASSWORD x`) and the run of a key can do without; a name in capitals and a long word are looked for.
    """
    for sign in _COMMON_SIGNS:
        if sign in view.raw:
            return False
    if _marks_of_words(view.text, view.raw) is None:
        return False
    return view.text.isascii() or (beyond_ascii(view.text).isalpha() and not holds_foreign(view.text))


def _marks_of_words(text: str, raw: bytes) -> bytes | None:
    """Return the marks of a text of words alone, and `None` for any other."""
    marks = raw.translate(_WORDS)
    is_other = marks.find(_SIGN) >= 0 or _may_give(text) or _holds_capital_name(raw, marks)
    return None if is_other else marks


def _may_give(text: str) -> bool:
    """Return True if there may be a table among words, or a question mark inside of one."""
    return ("," in text and "\n" in text) or ("?" in text and _INSIDE.search(text) is not None)


def _holds_capital_name(raw: bytes, marks: bytes) -> bool:
    end = len(marks)
    while (at := marks.rfind(_THREE, 0, end)) >= 0:
        end = max(map(marks.rfind, b"a ", (0, 0), (at, at))) + 1
        if _CAPITAL_STEM.search(raw, end, at + len(_THREE)):
            return True
    return False
