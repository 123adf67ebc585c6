"""`TextRedactor`: puts pseudonyms in the place of the secrets of one text."""

from __future__ import annotations

import re
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.data import Data
from agenttape_core.redaction.detection.encoded import decode, encode_like
from agenttape_core.redaction.detection.kinds import BASE64
from agenttape_core.redaction.detection.names import demand_of
from agenttape_core.redaction.detection.spans import Span, render
from agenttape_core.redaction.memo import Memo
from agenttape_core.redaction.pseudonyms import MARK, PSEUDONYM, Pseudonyms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.rules import Rule
    from agenttape_core.redaction.scanner import Scanner

_MAX_KEYS = 10_000
_NO_PLACES: Mapping[str, str] = MappingProxyType({})
_UNCHANGED = ""
"""Stands in the memory for a text without secrets: the caller gets its own text back, not one that only equals it."""


class TextRedactor:
    """Puts pseudonyms in the place of secrets in text and in base64; `Redactor` does so in plain data.

    Pure and deterministic: one text always becomes the same text, whatever was seen before it. Thread-safe.

    Args:
        key: The key of the cassette's pseudonyms; see `new_key`.
        rules: The user's own rules, in addition to the built-in detectors.
        enabled: Whether anything is redacted at all.
        places: Paths that are others in each run, by a name of at most 32 of `a-z`, `0-9`, `_` and `-`. Each has a
            pseudonym of its name, so that it is the same for all runs, and answers get the path of this run.
    """

    def __init__(
        self, key: str, *, rules: Sequence[Rule] = (), enabled: bool = True, places: Mapping[str, str] = _NO_PLACES
    ) -> None:
        self.key = key
        self.rules = tuple(rules)
        self.enabled = enabled
        self._pseudonyms = Pseudonyms(key)
        self.places = places
        for name, path in places.items() if enabled else ():
            self._pseudonyms.make(name, path, named=name)  # an answer may hold it before a request does
        self._memo = Memo()
        self._bytes_memo = Memo()
        self.harmless_keys: set[str] = set()

    @cached_property
    def _scanner(self) -> Scanner:
        # Imported by the first session, not by whoever imports us: the detectors are most of this layer.
        from agenttape_core.redaction.scanner import Scanner

        if not self.places:
            return Scanner(self.rules, self.contains_secret)
        from agenttape_core.redaction.rules import Rule

        longest_first = sorted(self.places.items(), key=lambda place: -len(place[1]))
        places = [Rule(name, pattern=rf"{re.escape(path)}(?![\w-])") for name, path in longest_first]
        return Scanner((*self.rules, *places), self.contains_secret)

    def text(self, text: str) -> str:
        """Return a text with a pseudonym in the place of each secret; the same object when there is none.

        Doing it twice changes nothing. A repeat costs a look-up.
        """
        if not self.enabled:
            return text
        kept = self._memo.young.get(text)
        if kept is None and (kept := self._memo.get(text)) is None:
            spans = self.spans(text)
            kept = render(text, spans) if spans else _UNCHANGED
            self._memo.put(text, kept)
        return kept or text

    def base64(self, body: str) -> str:
        """Return bytes in base64 redacted; the same object when there is no secret in them."""
        kept = self._bytes_memo.get(body)
        if kept is None:
            data = Data.of(body)
            spans = self.spans(data.text, strict=not data.is_text) if data else []
            kept = data.encoded(render(data.text, spans)) if data and spans else _UNCHANGED
            self._bytes_memo.put(body, kept)
        return kept or body

    @property
    def secrets(self) -> frozenset[str]:
        """The secrets that were replaced so far, in clear: search for them, and show them to nobody."""
        return self._pseudonyms.secrets

    def contains_secret(self, text: str) -> bool:
        """Return True if a text holds a secret that is not yet a pseudonym."""
        return self.text(text) != text

    def kind_of(self, name: str) -> str | None:
        """Return the kind of all values under a name, or `None` if the name is not denied."""
        kind = self._scanner.names.kind_of(name)
        # The key `value` is judged by its neighbours, a suspicious one by its value; see `walk.denied_kind`.
        harmless = kind is None and name != "value" and demand_of(name) is None
        if harmless and len(self.harmless_keys) < _MAX_KEYS and self.text(name) is name:
            self.harmless_keys.add(name)
        return kind

    def pseudonym(self, kind: str, secret: str) -> str:
        """Return the pseudonym of a secret."""
        return self._pseudonyms.make(kind, secret)

    def spans(self, text: str, *, strict: bool = False) -> list[Span]:
        """Return what is replaced in a text, in order.

        The parts between pseudonyms are looked at one by one, those that a new pseudonym splits off included: what
        is left over holds nothing more to find, which is why doing it twice changes nothing.

        Args:
            text: The text.
            strict: Only the user's rules and secrets with a form of their own; for data that is not text.
        """
        spans: list[Span] = []
        parts = _between_pseudonyms(text)
        while parts:
            start, end = parts.pop()
            part = text if (start, end) == (0, len(text)) else text[start:end]
            rest = start
            found = self._scanner.find(part, strict=strict)
            for finding in found:
                first, last = start + finding.start, start + finding.end
                spans.append(Span(first, last, self._replacement(finding, text[first:last])))
                parts.append((rest, first))
                rest = last
            if found:
                parts.append((rest, end))
        return sorted(spans)

    def _replacement(self, finding: Finding, secret: str) -> str:
        if finding.kind == BASE64 and (inner := decode(secret)) and (redacted := self.text(inner)) != inner:
            encoded = encode_like(secret, redacted)
            self._pseudonyms.note_encoded(encoded, secret)
            return encoded
        named = finding.kind if self.places.get(finding.kind) == secret else None
        return f"{finding.quote}{self._pseudonyms.make(finding.kind, secret, named=named)}{finding.quote}"


def _between_pseudonyms(text: str) -> list[tuple[int, int]]:
    if MARK not in text:
        return [(0, len(text))]
    parts, at = [], 0
    for pseudonym in PSEUDONYM.finditer(text):
        parts.append((at, pseudonym.start()))
        at = pseudonym.end()
    return [*parts, (at, len(text))]
