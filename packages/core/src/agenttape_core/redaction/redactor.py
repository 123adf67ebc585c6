"""`Redactor`: replaces secrets in text and plain data by pseudonyms, and puts the secrets back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.locks import cached_property
from agenttape_core.redaction.detection.encoded import Data, decode, encode_like, tells_pseudonym
from agenttape_core.redaction.detection.findings import BASE64, NUMBER, SECRET, Span, render, without_overlaps
from agenttape_core.redaction.detection.names import demand_of
from agenttape_core.redaction.detection.values import is_placeholder
from agenttape_core.redaction.detection.views import Normal, View
from agenttape_core.redaction.everywhere import Everywhere, told
from agenttape_core.redaction.forms import form_of, is_example, is_pseudonym
from agenttape_core.redaction.memo import PLAIN, Memo
from agenttape_core.redaction.path_placeholders import Places, Writing
from agenttape_core.redaction.pseudonyms import (
    MARK,
    PSEUDONYM,
    Pseudonyms,
    may_hold,
    number_of,
    places_of_pseudonyms,
    unsparing_scanner,
)
from agenttape_core.redaction.rehydration import Rehydrator, urls_in
from agenttape_core.redaction.streams import redact_chunks
from agenttape_core.redaction.walk import TELLING, Replacer, redact_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.everywhere import Path
    from agenttape_core.redaction.rules import Rule
    from agenttape_core.redaction.scanner import Scanner
    from agenttape_core.schema import Plain

_MAX_KEYS = 10_000
_harmless: set[str] = set()
"""The keys that are harmless to all redactors without rules of the user: the same few in all sessions of a program."""
_SHORT_PART, _NEAR_BORDER = 8_192, 2_048
_NO_PLACES = Places({})
_SCHEMES = frozenset({"", "bearer", "basic", "token", "digest", "apikey", "negotiate"})
_ARMOUR = "-----BEGIN "
_AROUND = Lazy(r"-----(?:BEGIN|END) [A-Z0-9 ]{1,50}-----|\\{1,4}[nrt]")
"""Text that may stand around the one secret of a value: PEM armour, and line breaks as JSON writes them."""
_TYPED = frozenset({"$str", "$uuid", "$decimal"})
_NO_NUMBERS = frozenset({"nan", "snan", "inf", "infinity"})
"""Floats and decimals without digits: no secret is one of them."""
_SLASHES = frozenset("/%\uff0f\uff05")
UNCHANGED = ""
"""Stands in the memory for a text without secrets: the caller gets its own text back, not one that only equals it."""
_URLS = Replacer(urls_in)


class Redactor(Replacer):
    """Replaces secrets by pseudonyms, and puts the secrets back.

    Pure and deterministic: equal data always becomes equal data, whatever was seen before it. Thread-safe.

    Args:
        key: The key of the cassette's pseudonyms; see `new_key`.
        rules: The user's own rules, in addition to the built-in detectors.
        enabled: Whether anything is redacted at all.
        places: Folders that differ between runs. The pseudonym is one of their name, and answers get this run's path.
        off: Kinds that the detectors don't look for, in addition to those that rules keep.
        forms: Whether pseudonyms have the form of what they replace. Without it, as in older cassettes, all are in
            brackets, and examples are secrets.
    """

    def __init__(
        self,
        key: str,
        *,
        rules: Sequence[Rule] = (),
        enabled: bool = True,
        places: Places | Mapping[str, str] = _NO_PLACES,
        off: Collection[str] = (),
        forms: bool = True,
    ) -> None:
        self.key = key
        self.rules = tuple(rule for rule in rules if not rule.keep)
        self.enabled = enabled
        self.off = frozenset([*off, *(rule.name for rule in rules if rule.keep)])
        self.forms = forms
        # A rule of the user's takes the place of a detector, but not of all that names give away.
        replaced = {rule.name for rule in self.rules} - {SECRET, NUMBER, BASE64} if forms else set()
        self._unsearched = self.off | replaced
        self.places = places if isinstance(places, Places) else Places(places)
        if self._unsearched:
            self.places = self.places.without(self._unsearched)
        self._pseudonyms = Pseudonyms(key, self.places.writings if enabled else ())
        self._memo = Memo()
        self._in_bytes = True
        self._has_own = bool(self.rules or self.off or self.places.is_plain or not (forms and enabled))
        """True if it may judge a text in which the detectors meet nothing otherwise than others do."""
        self.harmless_keys = set() if self._has_own else _harmless

    @cached_property
    def _scanner(self) -> Scanner:
        # Imported by the first session, not by whoever imports us: the detectors are most of this layer.
        from agenttape_core.redaction.scanner import Scanner

        return Scanner(self.rules, self.contains_secret, self._is_spared, self.places or None)

    @cached_property
    def _bytes_memo(self) -> Memo:
        return Memo()  # few sessions have bytes

    @cached_property
    def _rehydrator(self) -> Rehydrator:
        from agenttape_core.redaction.scanner import Scanner

        def spans(text: str, strict: bool, replacement: Callable[[Finding, str], str]) -> list[Span]:
            found = _changed(_found(scanner, text, replacement, strict=strict), text)
            if not may_hold(text):
                return found
            # What is in front of a pseudonym may give away what is behind it: a heading, or the margins of lines.
            whole = PSEUDONYM.sub(lambda held: "x" * len(held[0]), text)
            more = _changed(_found(scanner, whole, replacement, strict=strict), whole)
            kept = [Span(0, 0, "")]
            for span in sorted({*found, *more}, key=lambda span: (span.start, -span.end)):
                kept += [span] if span.start >= kept[-1].end else []
            return kept[1:]

        rehydrator = Rehydrator(self._pseudonyms, spans, self._denied)
        scanner = Scanner(self.rules, rehydrator.contains_secret, lambda kind, _: kind in self._unsearched)
        return rehydrator

    def text(self, text: str) -> str:
        """Return a text with a pseudonym instead of each secret; the same object when there is none.

        Doing it twice changes nothing. A repeat costs a look-up.
        """
        if not self.enabled:
            return text
        kept = self._memo.young.get(text)
        if kept is None:
            # No place is in a text without a slash, however it is escaped.
            if not self._has_own and text in PLAIN.young and text.isascii() and not ("/" in text or "%" in text):
                return text
            kept = self._memo.get(text)
        if kept is None:
            # A rule or a kind that is off can judge words otherwise.
            spans = [] if not self._has_own and self._scanner.is_of_words(text) else self.spans(text)
            kept = render(text, spans) if spans else UNCHANGED
            self._memo.put(text, kept)
        return kept or text

    def base64(self, body: str, kind: str | None = None) -> str:
        """Return bytes in base64 redacted; the same object when there is no secret in them."""
        if kind:
            return super().base64(body, kind)
        kept = self._bytes_memo.get(body)
        if kept is None:
            data = Data.of(body)
            spans = self.spans(data.text, strict=not data.is_text) if data else []
            kept = data.encoded(render(data.text, spans)) if data and spans else UNCHANGED
            self._bytes_memo.put(body, kept)
        return kept or body

    @property
    def secrets(self) -> frozenset[str]:
        """The secrets that were replaced so far, in clear: search for them, and show them to nobody."""
        return self._pseudonyms.secrets

    def everywhere(self) -> Everywhere:
        """Return what replaces the secrets that were found so far, wherever they are."""
        return Everywhere(self._pseudonyms.kinds if self.enabled else {}, self.pseudonym)

    def aligned(self, recorded: Sequence[tuple[Path, Any]], asked: Plain) -> Plain:
        """Return a request with the pseudonyms that a recorded one has for its secrets; the same object if it has none.

        Args:
            recorded: The places of the recorded request; see `everywhere.places_of`.
            asked: The request.
        """
        if not self.enabled:
            return asked
        other = Redactor(self.key, forms=self.forms)  # a guess that is wrong must not be known as a secret
        secrets = told(recorded, asked, other.pseudonym)
        return Everywhere(secrets, self.pseudonym).value(asked) if secrets else asked

    def kind_of(self, name: str) -> str | None:
        """Return the kind of all values under a name, or `None` if the name is not denied."""
        kind = self._denied(name)
        # The key `value` is judged by its neighbours, a suspicious one by its value; see `walk.denied_kind`.
        harmless = kind is None and name != "value" and name not in TELLING and demand_of(name) is None
        # Nor is a place, which is another in each session.
        harmless = harmless and (self._has_own or _SLASHES.isdisjoint(name))
        if harmless and len(self.harmless_keys) < _MAX_KEYS and self.text(name) is name:
            self.harmless_keys.add(name)
        return kind

    def _denied(self, name: str) -> str | None:
        kind = self._scanner.names.kind_of(name)
        return None if kind == SECRET and SECRET in self.off else kind

    def pseudonym(self, kind: str, secret: str) -> str:
        """Return the pseudonym of a secret; one in a form is another pseudonym's own, and stays."""
        form = form_of(kind, secret) if self.forms else None
        if form is not None:
            return self._pseudonyms.make_formed(form, secret)
        if self.forms and secret.startswith(_ARMOUR):
            if not _AROUND.sub("", secret).strip():
                return secret  # the pseudonym inside was found before
            if armoured := self._pseudonyms.make_armoured(secret):
                return armoured
        return self._pseudonyms.make(kind, secret, named=self._in_all_runs(secret))

    def _in_all_runs(self, secret: str) -> str | None:
        """Return what is hashed for a secret in which a place stands: the file of a key is one in all runs."""
        if not self.places or "/" not in secret:
            return None
        found = without_overlaps(self.places.find(View(Normal(secret))))
        return render(secret, [Span(place.start, place.end, f"<{place.kind}>") for place in found]) if found else None

    def whole(self, text: str, kind: str) -> str:
        """Return the pseudonym of a string of which the name says that it is secret; placeholders are only searched.

        What a detector finds in it keeps its own kind, if it is all there is but for an authentication scheme: a key
        has one pseudonym, whether it stands in a header or in a sentence.
        """
        if is_placeholder(text) or kind in self.off:
            return self.text(text)
        if self._all_found(text):
            redacted = self.text(text)
            # Or doing it twice would be more than doing it once: numbers that are glued can read another way.
            if redacted == text or self._all_found(redacted):
                return redacted
        return self.pseudonym(kind, text)

    def number(self, number: float) -> Any:
        """Return the pseudonym of a number that stands under a denied name."""
        if NUMBER in self.off:
            return number
        text = repr(number)
        made = self.pseudonym(NUMBER, text)
        return made if not self.forms or made.startswith(MARK) else number if made == text else number_of(made)

    def scalar(self, tag: str, body: str, kind: str) -> Any:
        """Return the pseudonym of a typed value that stands under a denied name: typed, where its type has a form."""
        if kind in self.off or (tag in {"$float", "$decimal"} and body.lstrip("+-").lower() in _NO_NUMBERS):
            return {tag: body}
        made = self.pseudonym(NUMBER if tag == "$decimal" and form_of(NUMBER, body) else kind, body)
        return {tag: made} if self.forms and tag in _TYPED and not made.startswith(MARK) else made

    def spans(self, text: str, *, strict: bool = False) -> list[Span]:
        """Return the replacements of a text, in order.

        Args:
            text: The text.
            strict: Only the user's rules and secrets with a form of their own; for data that is not text.
        """
        return _changed(_found(self._scanner, text, self._replacement, strict=strict), text)

    def _all_found(self, text: str) -> bool:
        """Return True if a text is nothing but secrets that the detectors know, or their pseudonyms."""
        found = _found(self._scanner, text, self._replacement)
        rest = PSEUDONYM.sub("", render(text, [span._replace(replacement="") for span in found]))
        rest = _AROUND.sub("", rest)
        if self.forms and rest.strip().lower() not in _SCHEMES:
            rest = render(rest, _found(unsparing_scanner(), rest, _without_formed))
        return rest != text and rest.strip().lower() in _SCHEMES

    def _is_spared(self, kind: str, text: str) -> bool:
        """Return True if a finding of a detector is not to be replaced: by the user's word, or as an example."""
        if kind in self._unsearched:
            return True
        if not self.forms:
            return kind in ("card", "ssn") and is_pseudonym(kind, text)
        form = form_of(kind, text)
        if form is None or not is_example(kind, text):
            return False
        self._pseudonyms.note_plain(form, text)
        return True

    def _replacement(self, finding: Finding, secret: str) -> str:
        if finding.kind == BASE64 and (inner := decode(secret)) and (redacted := self.text(inner)) != inner:
            encoded = encode_like(secret, redacted)
            self._pseudonyms.note_encoded(encoded, secret)
            return encoded
        found = Writing(secret, finding.kind)
        if (place := self.places.writing(found)) is not None:
            return self._pseudonyms.make_place(place)
        made = self.pseudonym(found.kind, secret)
        return f"{finding.quote}{made}{finding.quote}" if made.startswith(MARK) else made

    def value(self, plain: Plain) -> Plain:
        """Return plain data with all values and keys redacted; the very same object when nothing changed."""
        if not self.enabled:
            return plain
        return redact_value(plain, self)

    def is_plain(self, value: Any) -> bool:
        """Return True if a value is a dict of ASCII texts in which nothing is replaced, as most messages are.

        It needs no encoding then, and each text that was met before costs a look-up.
        """
        if type(value) is not dict or len(value) < 2:  # noqa: PLR2004 - a tagged value has one item
            return False
        names, known = self.harmless_keys, self._memo.young
        for name, text in value.items():
            if type(name) is not str or type(text) is not str or name not in names or not text.isascii():
                return False
            if known.get(text) != UNCHANGED and self.text(text) is not text:
                return False
        return True

    def chunks(self, chunks: list[Plain]) -> list[Plain]:
        """Return the chunks of one stream redacted, secrets that are split between chunks included.

        The pseudonym goes where the secret starts, the rest of it is removed from the later chunks. Number and
        shapes of the chunks stay.
        """
        return redact_chunks(chunks, self) if self.enabled else chunks

    def rehydrate(self, plain: Plain) -> Plain:
        """Return plain data with the secret instead of each pseudonym that this redactor made.

        A pseudonym that it has not made stays, percent-encoded in a URL; see `rehydration`. The very same object is
        returned when there is none.
        """
        if not self._pseudonyms.any_secret and not tells_pseudonym(plain):
            return plain
        restored = self.restored(plain)
        return redact_value(restored, _URLS) if self.forms and tells_pseudonym(restored) else restored

    def restored(self, plain: Plain) -> Plain:
        """Return plain data with the secrets that this redactor knows, and all other pseudonyms as they are."""
        known = self._pseudonyms
        if not known.any_known or not (known.any_secret or tells_pseudonym(plain)):
            return plain
        restored = redact_value(plain, self._rehydrator)
        return redact_value(restored, self._rehydrator.elsewhere) if known.any_named else restored

    def rehydrate_chunks(self, chunks: Sequence[Plain]) -> Iterator[Plain]:
        """Yield the chunks of a stream with their secrets, each when its reader comes to it."""
        if self._pseudonyms.any_formed and len(chunks) > 1:
            chunks = redact_chunks(list(chunks), self._rehydrator)  # what is a secret may be said in an earlier chunk
        if not tells_pseudonym(list(chunks)):  # one that tells its kind comes of no secret
            return map(self.restored, chunks) if self._pseudonyms.any_formed else iter(chunks)
        if self.forms and len(chunks) > 1:
            chunks = redact_chunks(list(chunks), _URLS)  # a URL may have begun in an earlier one
        return map(self.rehydrate, chunks)

    def with_rules(self, rules: Sequence[Rule]) -> Redactor:
        """Return a redactor that has seen nothing yet, with other rules and the same key."""
        return Redactor(self.key, rules=rules, enabled=self.enabled, places=self.places, off=self.off, forms=self.forms)

    def with_places(self, plain: Plain) -> Plain:
        """Return plain data with the paths of this run instead of their pseudonyms, and all secrets replaced."""
        if not (plain and self.enabled and self.places.paths):
            return plain
        return Redactor(self.key, places=self.places).restored(plain)


def _found(
    scanner: Scanner, text: str, replacement: Callable[[Finding, str], str], *, strict: bool = False
) -> list[Span]:
    """Return all that a scanner finds in a text, with what stands in its place, in order.

    The parts between pseudonyms are looked at one by one, those that a new pseudonym splits off included: what is left
    over holds nothing more to find, which is why doing it twice changes nothing.
    """

    def find(start: int, end: int) -> list[Finding]:
        part = text if (start, end) == (0, len(text)) else text[start:end]
        return scanner.find(part, strict=strict, is_start=start == 0)

    spans: list[Span] = []
    parts = _between_pseudonyms(text)
    while parts:
        start, end = parts.pop()
        found = [
            Span(start + each.start, start + each.end, replacement(each, text[start + each.start : start + each.end]))
            for each in find(start, end)
        ]
        spans += found
        borders = [start, *(border for span in found for border in span[:2]), end] if found else []
        for first, last in zip(borders[::2], borders[1::2], strict=True):
            # All of it was searched before, and only its new borders can make a difference: most often they don't.
            near = _near_borders(text, first, last, is_new_start=first > start, is_new_end=last < end)
            if any(part == (first, last) or find(*part) for part in near):
                parts.append((first, last))
    return sorted(spans)


def _near_borders(text: str, start: int, end: int, *, is_new_start: bool, is_new_end: bool) -> list[tuple[int, int]]:
    """Return the surroundings of the new borders of a part of a text, in whole words; all of it if it's short."""
    if end - start <= _SHORT_PART:
        return [(start, end)]
    head, tail = text.find(" ", start + _NEAR_BORDER, end), text.rfind(" ", start, end - _NEAR_BORDER)
    near = [(start, head if head >= 0 else end)] if is_new_start else []
    return [*near, (tail + 1 if tail >= 0 else start, end)] if is_new_end else near


def _without_formed(finding: Finding, value: str) -> str:
    return "" if is_pseudonym(finding.kind, value) else value


def _changed(spans: list[Span], text: str) -> list[Span]:
    """Return the spans in which something else stands than in the text: a pseudonym that is found stays."""
    return [span for span in spans if span.replacement != text[span.start : span.end]]


def _between_pseudonyms(text: str) -> list[tuple[int, int]]:
    if not may_hold(text):
        return [(0, len(text))]
    parts, at = [], 0
    for start, end in places_of_pseudonyms(text):
        parts.append((at, start))
        at = end
    return [*parts, (at, len(text))]
