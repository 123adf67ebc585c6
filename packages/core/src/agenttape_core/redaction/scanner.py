"""All findings in one text: the user's rules, then every detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.anchors import is_of_words, without_anchors
from agenttape_core.redaction.detection.assignments import find_assignments
from agenttape_core.redaction.detection.encoded import find_encoded
from agenttape_core.redaction.detection.fields import find_fields, find_inserted, find_tags
from agenttape_core.redaction.detection.findings import BASE64, Finding, without_overlaps
from agenttape_core.redaction.detection.names import Names
from agenttape_core.redaction.detection.normal import Normal, normalised
from agenttape_core.redaction.detection.personal import find_emails, find_numbers
from agenttape_core.redaction.detection.runs import find_keys, find_pem
from agenttape_core.redaction.detection.tables import TABLES
from agenttape_core.redaction.detection.views import LONG, View, holds
from agenttape_core.redaction.memo import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agenttape_core.redaction.path_placeholders import Places
    from agenttape_core.redaction.rules import Rule

_SHORTEST = 4
"""No detector of ours finds anything in a shorter text."""
_MAX_PLAIN = 4_096


class Scanner:
    """Finds secrets in a text.

    Args:
        rules: The user's own rules. They come before the detectors.
        holds_secret: Whether a text that was decoded from base64 holds a secret.
        is_spared: Whether a detector's finding of some kind, which is given with its text, is no secret here.
        places: The folders of this run. They come after the rules.
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

        Args:
            text: The text.
            strict: Only the user's rules, places, and secrets with a form of their own; for data that is not text.
            is_start: Whether a text starts here, rather than goes on after a pseudonym.
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
        for number in without_anchors(texts, self.names, signs=signs):
            yield texts[number]

    def _detected(self, text: str, view: View, met: list[object], *, strict: bool) -> Iterator[Finding]:
        """Yield what the detectors find, and note all that they met, also if it is spared or turns out harmless."""
        if len(view.text) < _SHORTEST:
            return
        if found := _by_form(view, strict=strict):
            yield from self._unspared(text, found, met)
        if strict:
            return
        if self.names.has_own or not is_of_words(view):
            named = self._by_name(view)
            yield from (finding for finding in named if finding.kind in self._own)  # the user's word is never spared
            yield from self._unspared(text, (finding for finding in named if finding.kind not in self._own), met)
            yield from self._unspared(text, TABLES.find(view), met)
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
        if b"=" in view.raw:
            found += find_fields(view, self.names)
            if b"<" in view.raw:
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
